"""The stage of a storm: a fleet that serves, and what a story can do to its machines."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from bench.llama3_evidence import Fault, Rig
from bench.storms_record import CommonCause, Record
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.store import Committed
from navarch.sim.world.world import World
from navarch.testing.worlds import H100, a_pool

NODES_PER_RACK = 18
RACKS_PER_FEED = 4
OLD = "550.90.07"
STATUS_CHECK_S = 90.0
"""How long after the death of a machine its provider's status check fails."""
RACK, FEED = "rack", "power_feed"

Event = tuple[float, Callable[[], None]]
"""Something that happens so many seconds after the storm begins."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """A world with a fleet in it, a source of chance, and the record of what is true."""

    world: World
    chance: Random
    record: Record
    nodes: list[NodeId]
    """The nodes that served when the storm began, in random order."""
    per_rack: int = NODES_PER_RACK

    async def play(self, events: Iterable[Event], *, until_s: float) -> None:
        """Let events happen at their times, and time pass until the end."""
        began_s = self.world.clock.monotonic()
        for at_s, happen in sorted(events, key=lambda event: event[0]):
            await self.world.clock.sleep(max(began_s + at_s - self.world.clock.monotonic(), 0.0))
            happen()
        await self.world.clock.sleep(max(began_s + until_s - self.world.clock.monotonic(), 0.0))

    def is_there(self, node: NodeId) -> bool:
        """Return whether the machine of `node` runs and is kept."""
        known = self.world.fleet().nodes.get(node)
        return known is not None and not known.gone and known.retiring is None

    def labels(self, node: NodeId) -> dict[str, str]:
        """Return the rack of a machine, and the feed that powers it.

        Successors stand in racks of their own.
        """
        return place(node, self.per_rack)

    def in_rack(self, rack: str) -> list[NodeId]:
        """Return the nodes in a rack."""
        return [node for node in self.nodes if self.labels(node)[RACK] == rack]

    def on_new_node(self, happen: Callable[[NodeId], None], *, share: float) -> None:
        """Let something happen to a share of the new nodes, within minutes of their start."""

        def watch(committed: Committed) -> None:
            for before, node in committed.moved:
                is_new = before is None or before.registered_at is None
                if node.registered_at is not None and is_new and self.chance.random() < share:
                    delay_s = self.chance.uniform(10.0, 300.0)
                    asyncio.get_running_loop().call_later(delay_s, happen, node.id)

        self.world.store.subscribe(watch)

    # What breaks machines

    def show(self, node: NodeId, result: CheckResult, cause: CommonCause | None = None) -> None:
        """Let a check of the agent return `result` from now on."""
        if not self.is_there(node):
            return
        agent = self.world.agent(node)
        agent.results[result.check] = result
        agent.report_now()
        if cause is not None:
            cause.shown_at.setdefault(node, self.record.now_s())

    def find(
        self,
        node: NodeId,
        fault: Fault,
        cause: CommonCause | None = None,
        *,
        breaks: bool = False,
    ) -> None:
        """Let the agent's own checks find a fault; `breaks` if the machine is broken by then."""
        if not self.is_there(node):
            return
        if breaks:
            self.record.broken_at[node] = self.record.now_s()
        for result in Rig(self.world, node).after(fault, self.chance):
            self.show(node, result, cause)

    def break_machine(self, node: NodeId, fault: Fault) -> None:
        """Break one machine, which must be treated soon."""
        if self.is_there(node):
            self.record.due[node] = self.record.now_s()
            self.find(node, fault, breaks=True)

    def kill(
        self, node: NodeId, cause: CommonCause | None = None, *, must_be_found: bool = False
    ) -> None:
        """Let a machine die: its agent sends nothing more, and soon its status check fails."""
        if not self.is_there(node):
            return
        now_s = self.record.now_s()
        self.record.broken_at[node] = now_s
        self.world.silence(node)
        if must_be_found:
            self.record.due[node] = now_s + STATUS_CHECK_S
        if cause is not None:
            cause.shown_at.setdefault(node, now_s)

    def end(self, node: NodeId) -> None:
        """Let the provider list a dead machine as ended."""
        if self.is_there(node):
            self.record.due[node] = min(self.record.now_s(), self.record.due[node])
            self.world.reclaim(node)

    # What only looks as if it did

    def cut_off(self, node: NodeId) -> None:
        """Cut the network between a sound machine and the control plane."""
        self.world.partition(node)

    def isolate(self, node: NodeId) -> None:
        """Cut a sound machine off from everything: its switch is dead, or it reboots."""
        self.world.isolate(node)

    def reconnect(self, node: NodeId) -> None:
        """Mend the network."""
        self.world.partitioned.discard(node)
        self.world.isolated_nodes.discard(node)
        self.world.hosts.wake(node)

    def install(self, node: NodeId, driver: str) -> None:
        """Install a driver: the machine comes back from a reboot with it."""
        if self.is_there(node):
            agent = self.world.agent(node)
            agent.driver = driver
            agent.reboot(f"{agent.boot_id} with {driver}")
            self.reconnect(node)
            agent.report_now()

    def upgrade(self, node: NodeId, driver: str, at_s: float) -> list[Event]:
        """Return the events of an upgrade: a silence of minutes, then the new driver."""
        reboot_s = self.chance.uniform(60.0, 300.0)
        return [
            (at_s - reboot_s, lambda: self.isolate(node)),
            (at_s, lambda: self.install(node, driver)),
        ]


def place(node: NodeId, per_rack: int) -> dict[str, str]:
    """Return the rack of a machine and its power feed, by the number of its node."""
    pool, _, number = node.rpartition("-")
    rack = int(number) // per_rack
    return {RACK: f"{pool}-r{rack:02}", FEED: f"{pool}-feed-{rack // RACKS_PER_FEED}"}


def one_pool(nodes: int) -> list[Pool]:
    """Return one pool in one zone."""
    return [a_pool(size=nodes, nodes_max=nodes + max(32, nodes // 8))]


def six_pools(nodes: int) -> list[Pool]:
    """Return six pools, two in each of three zones."""
    pools = []
    for place, letter in enumerate("abcdef"):
        size = nodes // 6 + (place < nodes % 6)
        offering = evolve(H100, zone=f"region-1{'abc'[place // 2]}")
        pools.append(
            a_pool(f"training-{letter}", size=size, nodes_max=size + 32, offerings=(offering,))
        )
    return pools
