"""A driver that is bad, put on a whole fleet at once, at full size and without a cloud.

Only what decides is real: agents' introductions and reports, the census, the governor and the
remediation loop. Machines that are given back are gone two minutes later and others in their
place, which is quicker than any cloud and so hides nothing.
"""

import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from navarch.control.health.remediation import RemediationController
from navarch.control.providers.guard import Providers
from navarch.core.disruption import Deferred
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.instance import Gpu, Inventory
from navarch.core.launch import Offering
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.agents import Registration
from navarch.service.agents import AgentService
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.state.index import Index
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

OLD, NEW = "550.90.07", "570.86.10"
HARDWARE = (79, 48, 64, 95)
GONE_AFTER = timedelta(minutes=2)
BATCHES_BOOTING = 60
"""While the driver is taken off, a quarter of the fleet has booted and was not yet checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What came of it."""

    nodes: int
    broken_by_driver: int
    broken_hardware: int
    acted_for_driver: int
    """Sound machines that were given up because of the driver."""
    acted_for_hardware: int
    acted_in_worst_hour: int
    budget: int
    """What the pool's budget allows in an hour."""
    named: tuple[str, ...]
    """Every reason for which nodes were held back as the work of a change."""
    held: int
    """How many waited when the last broken machine had been acted on."""
    acted_in_rollback: int
    """Sound machines that were given up while the driver was taken off again."""
    held_in_the_end: int
    """How many still wait once the old driver is back everywhere."""
    hardware_done_after_s: float
    """When the last broken machine had been acted on, in virtual seconds since the push."""
    first_act_after_s: float
    rounds: int
    decide_cpu_s: float
    """CPU time of all rounds of the remediation loop."""
    slowest_round_s: float


@dataclass
class _RolloutFleet:
    nodes: int
    share_broken: float
    seed: int
    clock: SimClock = field(default_factory=SimClock)

    def __post_init__(self) -> None:
        self.entropy = SeededEntropy(f"rollout/{self.seed}")
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        columns = TelemetryTable(self.clock, timeout=timedelta(hours=9))
        index = Index(self.store.fleet())
        self.store.subscribe(index.advance)
        self.agents = AgentService(self.clock, self.store, index, columns)
        self.remediation = RemediationController(
            self.clock, self.store, index, Providers([]), remediator=lambda _: CordonAndReplace()
        )
        self.store.subscribe(self.remediation.on_commit)
        self.acted: list[tuple[datetime, NodeId, bool]] = []
        self.broken: set[NodeId] = set()
        self.leaving: dict[NodeId, datetime] = {}
        self.cpu_s = 0.0
        self.slowest_s = 0.0
        self.rounds = 0
        self.next_number = self.nodes

    async def run(self) -> Rollout:
        pool = self._pool()
        names = [pool.node_id(i) for i in range(self.nodes)]
        await self.store.commit(Change(pools=[pool]), based_on=0)
        await self._fill(names)
        self.broken = {n for n in names if self.entropy.uniform(0, 1) < self.share_broken}
        self.pushed_at = self.clock.now()
        # Every agent comes back with the new driver within a minute, and says what it sees.
        shuffled = sorted(names, key=lambda _: self.entropy.uniform(0, 1))
        for batch in _batches(shuffled, max(self.nodes // 240, 1)):
            for name in batch:
                await self._upgrade(name)
            await self._round()
            await self.clock.sleep(0.25)
        deadline = self.clock.monotonic() + 4 * 3600
        while self.clock.monotonic() < deadline and not self._hardware_done():
            await self._round()
            await self._finish_leaving()
            await self.clock.sleep(5.0)
        outcome = self._outcome(pool)
        await self._roll_back()
        return replace(
            outcome,
            acted_in_rollback=len(self.acted)
            - outcome.acted_for_driver
            - outcome.acted_for_hardware,
            held_in_the_end=len(self._held()),
            rounds=self.rounds,
            decide_cpu_s=round(self.cpu_s, 3),
            slowest_round_s=round(self.slowest_s, 3),
        )

    async def _roll_back(self) -> None:
        """Put the old driver back, machine after machine; each is sound from its boot check on."""
        names = [node.id for node in self.store.fleet().nodes.values() if node.counts]
        booting: deque[list[NodeId]] = deque()
        for batch in _batches(names, max(len(names) // 240, 1)):
            for name in batch:
                await self.agents.register(_introduction(name, OLD, boot="rolled back"))
            booting.append(batch)
            if len(booting) > BATCHES_BOOTING:
                await self._vouch(booting.popleft())
            await self._round()
            await self.clock.sleep(1.0)
        for batch in booting:
            await self._vouch(batch)
            await self._round()
            await self.clock.sleep(1.0)
        await self._round()

    async def _vouch(self, names: list[NodeId]) -> None:
        for name in names:
            sound = CheckResult(check=BOOT, health=Health.HEALTHY)
            await self.agents.report_health(name, HealthReport(results=(sound,)))

    def _pool(self) -> Pool:
        offering = Offering(
            provider=ProviderName("sim"), instance_type="h100-8x", region="r1", gpus=8
        )
        return Pool(
            name=PoolName("training"),
            offerings=(offering,),
            nodes_min=self.nodes,
            nodes_max=2 * self.nodes,
        )

    async def _fill(self, names: list[NodeId]) -> None:
        now = self.clock.now()
        nodes = [_node(name, now) for name in names]
        events = [_event(names[0], "node.requested", now)]
        change = Change(nodes=nodes, events=events)
        await self.store.commit(change, based_on=self.store.fleet().revision)
        for name in names:
            await self.agents.register(_introduction(name, OLD))
        await self._round()
        await self.clock.sleep(86400.0 * 3)

    async def _upgrade(self, name: NodeId) -> None:
        await self.agents.register(_introduction(name, NEW))
        results = [CheckResult(check=BOOT, health=Health.HEALTHY), _xid(119, "reset_gpu")]
        if name in self.broken:
            code = HARDWARE[int(self.entropy.uniform(0, len(HARDWARE)))]
            # Half of the broken machines do not live to show what the driver does.
            results = [results[0], _xid(code, "replace"), *results[1:]]
            if self.entropy.uniform(0, 1) < 0.5:
                results = results[:2]
        await self.agents.report_health(name, HealthReport(results=tuple(results)))

    async def _round(self) -> None:
        began = time.process_time()
        before = self.store.fleet()
        queue = self.remediation.queue
        if keys := queue.take(self.clock.now()):
            await self.remediation.reconcile(keys)
            queue.done()
        took = time.process_time() - began
        self.rounds += 1
        self.cpu_s += took
        self.slowest_s = max(self.slowest_s, took)
        if self.store.fleet().revision == before.revision:
            return
        now = self.clock.now()
        for node in self.store.fleet().nodes.values():
            if node.retiring is not None and not node.gone and node.id not in self.leaving:
                self.leaving[node.id] = now
                self.acted.append((now, node.id, node.id in self.broken))

    async def _finish_leaving(self) -> None:
        now = self.clock.now()
        done = [n for n, at in self.leaving.items() if now >= at + GONE_AFTER]
        fleet = self.store.fleet()
        gone = [
            evolve(fleet.nodes[n], phase=Phase.GONE, since=now)
            for n in done
            if not fleet.nodes[n].gone
        ]
        if not gone:
            return
        fresh = []
        for _ in gone:
            fresh.append(_node(NodeId(f"training-{self.next_number}"), now))
            self.next_number += 1
        events = [_event(node.id, "node.gone", now) for node in gone]
        change = Change(nodes=[*gone, *fresh], events=events)
        await self.store.commit(change, based_on=fleet.revision)
        for node in fresh:
            await self.agents.register(_introduction(node.id, NEW))

    def _hardware_done(self) -> bool:
        return sum(broken for _, _, broken in self.acted) == len(self.broken)

    def _held(self) -> list[Deferred]:
        nodes = self.store.fleet().nodes.values()
        return [n.held for n in nodes if n.held is not None and not n.gone]

    def _outcome(self, pool: Pool) -> Rollout:
        held = self._held()
        hardware = [at for at, _, broken in self.acted if broken]
        since = self.pushed_at
        return Rollout(
            nodes=self.nodes,
            broken_by_driver=self.nodes - len(self.broken),
            broken_hardware=len(self.broken),
            acted_for_driver=len(self.acted) - len(hardware),
            acted_for_hardware=len(hardware),
            acted_in_worst_hour=_worst_hour([at for at, _, _ in self.acted]),
            budget=max(1, int(pool.nodes_min * 0.05)),
            named=tuple(sorted({x.because for x in held if x.by == "change"})),
            held=len(held),
            acted_in_rollback=0,
            held_in_the_end=len(held),
            hardware_done_after_s=(max(hardware) - since).total_seconds() if hardware else -1.0,
            first_act_after_s=(
                (min(at for at, _, _ in self.acted) - since).total_seconds() if self.acted else -1.0
            ),
            rounds=self.rounds,
            decide_cpu_s=round(self.cpu_s, 3),
            slowest_round_s=round(self.slowest_s, 3),
        )


def roll_out(nodes: int, *, share_broken: float = 0.03, seed: int = 1) -> Rollout:
    """Put a bad driver on `nodes` nodes, some of which break by themselves at the same time."""

    async def main() -> Rollout:
        return await _RolloutFleet(nodes, share_broken, seed).run()

    return run_simulated(main())


def _worst_hour(moments: list[datetime]) -> int:
    hour = timedelta(hours=1)
    window: Counter[datetime] = Counter()
    for start in moments:
        window[start] = sum(start <= moment < start + hour for moment in moments)
    return max(window.values(), default=0)


def _batches(names: list[NodeId], size: int) -> Iterator[list[NodeId]]:
    for first in range(0, len(names), size):
        yield names[first : first + size]


def _node(name: NodeId, now: datetime) -> Node:
    return Node(id=name, pool=PoolName("training"), phase=Phase.BOOTING, since=now, created_at=now)


def _introduction(name: NodeId, driver: str, *, boot: str = "") -> Registration:
    gpu = Gpu(index=0, uuid=f"GPU-{name}", driver_version=driver)
    boot_id = boot or f"boot with {driver}"
    return Registration(node=name, boot_id=boot_id, inventory=Inventory(gpus=(gpu,)))


def _xid(code: int, action: str) -> CheckResult:
    return CheckResult(
        check=f"xid/{code}/GPU-0",
        health=Health.UNHEALTHY,
        reason=f"XID {code}",
        fatal=True,
        lasting=True,
        action=action,
        facts={"code": str(code), "kind": "xid", "gpu": "GPU-0"},
    )


def _event(node: NodeId, kind: str, now: datetime) -> Event:
    return Event(at=now, about=about("node", node), kind=kind, reason="the story says so")
