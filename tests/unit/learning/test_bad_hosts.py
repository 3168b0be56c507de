"""Machines returned as broken are recognised when they register again."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from navarch.control.health.bad_hosts import SUBJECT, BadHostController
from navarch.control.runtime.controller import CommitHook, no_hook
from navarch.core.event import Recorded
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, Inventory, Topology
from navarch.core.node import Node, Retirement
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.health.learning.lemons import MACHINE, identities
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import ControllerDriver, a_node, a_pool

UUID = "GPU-{:08x}-0000-0000-0000-000000000000"


class Site:
    """A store, and the reconciler of bad hosts."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.memory = ControllerDriver(
            self.clock, self.store, BadHostController(self.clock, self.store)
        )

    def restart(self) -> None:
        self.memory = ControllerDriver(
            self.clock, self.store, BadHostController(self.clock, self.store)
        )

    async def come(self, name: str, gpus: range, **labels: str) -> None:
        node = a_node(name, registered_at=self.clock.now())
        found = tuple(Gpu(index=i, uuid=UUID.format(number)) for i, number in enumerate(gpus))
        change = Change(
            pools=[a_pool()],
            nodes=[node],
            inventories={node.id: Inventory(gpus=found, labels=labels)},
        )
        await self.store.commit(change, based_on=self.store.fleet().revision)
        await self.memory.reconcile()

    async def give_back(
        self,
        name: str,
        *,
        check: str = "xid/79",
        gpu: int | None = None,
        follow: CommitHook = no_hook,
        dies: bool = False,
    ) -> None:
        """Return a machine; `dies` if the control plane crashes right after that commit."""
        broken = Condition(
            check=check,
            health=Health.UNHEALTHY,
            reason="XID 79",
            since=self.clock.now(),
            facts={} if gpu is None else {"gpu": UUID.format(gpu)},
        )
        node = self.node(name)
        gone = evolve(
            node,
            health=Health.UNHEALTHY,
            conditions=(broken,),
            retiring=Retirement(reason="unhealthy: XID 79"),
        )
        fleet = self.store.fleet()
        change = await follow(Change(nodes=[gone]), fleet)
        await self.store.commit(change, based_on=fleet.revision)
        if not dies:
            await self.memory.reconcile()

    async def words(self) -> list[Recorded]:
        """Return the journal's reasons for returned machines."""
        return [*await self.store.events(about=SUBJECT)]

    async def place(self, name: str, host: str) -> None:
        placed = evolve(self.node(name), topology=Topology(host=host))
        await self.store.commit(Change(nodes=[placed]), based_on=self.store.fleet().revision)
        await self.memory.reconcile()

    def node(self, name: str) -> Node:
        return self.store.fleet().nodes[NodeId(name)]

    def held_against(self, name: str) -> list[str]:
        return [c.reason for c in self.node(name).conditions if c.check == MACHINE]


def play(story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Site())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_machine_returned_as_broken_is_refused_when_it_registers_again() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a")
        site.restart()
        await site.come("b", range(8))
        await site.come("c", range(8, 16))
        (why,) = site.held_against("b")
        assert why.startswith("returned as broken node a on ")
        assert "XID 79" in why
        assert site.node("b").health is Health.UNHEALTHY
        assert site.held_against("c") == []

    play(story)


def test_returning_a_broken_machine_is_journalled_in_the_same_commit() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        before = site.store.fleet().revision
        await site.give_back("a", follow=site.memory.controller.hook, dies=True)

        assert site.store.fleet().revision == before + 1
        (word,) = await site.words()
        assert word.revision == before + 1
        assert word.event.facts["machine"].split() == [UUID.format(i).lower() for i in range(8)]
        assert site.memory.due_at() is None, "there is nothing left to do"
        await site.come("b", range(8))
        assert len(site.held_against("b")) == 1

    play(story)


@pytest.mark.parametrize("follows", [True, False])
def test_after_a_restart_it_is_not_journalled_again(follows: bool) -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a", follow=site.memory.controller.hook if follows else no_hook)
        site.restart()
        await site.memory.reconcile()
        assert len(await site.words()) == 1

    play(story)


def test_a_return_that_was_not_journalled_is_journalled_at_the_start() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a", dies=True)
        assert await site.words() == []
        site.restart()
        await site.memory.reconcile()
        assert len(await site.words()) == 1

    play(story)


def test_a_machine_that_never_registered_has_no_identities() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        unknown = evolve(site.node("a"), id=NodeId("b"), registered_at=None)
        fleet = site.store.fleet()
        await site.store.commit(Change(nodes=[unknown]), based_on=fleet.revision)
        await site.give_back("b", follow=site.memory.controller.hook)
        assert await site.words() == []

    play(story)


def test_only_the_faulty_gpu_identifies_a_returned_machine() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a", gpu=3)
        await site.come("with-its-neighbours", range(4, 12))
        await site.come("with-it", range(3, 4))
        assert site.held_against("with-its-neighbours") == []
        assert len(site.held_against("with-it")) == 1

    play(story)


def test_a_host_is_recognised_by_its_serial_with_other_gpus() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8), serial="S123")
        await site.give_back("a", gpu=3)
        await site.come("b", range(50, 58), serial="S123")
        assert len(site.held_against("b")) == 1

    play(story)


def test_a_host_is_recognised_by_a_name_that_the_provider_reports_later() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.place("a", "rack-3/host-12")
        await site.give_back("a")

        await site.come("b", range(100, 108))
        assert site.held_against("b") == [], "it could be any machine"
        await site.place("b", "rack-3/host-12")

        assert len(site.held_against("b")) == 1

    play(story)


def test_a_missing_heartbeat_does_not_mark_a_machine_as_broken() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a", check=HEARTBEAT)
        await site.come("b", range(8))
        assert site.held_against("b") == []

    play(story)


def test_an_override_admits_a_returned_machine_also_after_a_restart() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a")
        await site.come("b", range(8))
        fine = evolve(site.node("b"), conditions=(), health=Health.HEALTHY)
        await site.store.commit(Change(nodes=[fine]), based_on=site.store.fleet().revision)
        site.restart()
        await site.memory.reconcile()
        assert site.held_against("b") == []

    play(story)


def test_after_90_days_a_returned_machine_is_admitted() -> None:
    async def story(site: Site) -> None:
        await site.come("a", range(8))
        await site.give_back("a")
        await site.clock.sleep(timedelta(days=91).total_seconds())
        await site.come("b", range(8))
        assert site.held_against("b") == []

    play(story)


@pytest.mark.parametrize(
    ("uuid", "names"),
    [
        ("GPU-0000000a-00b0-0c00-d000-00000000000e", ("gpu-0000000a-00b0-0c00-d000-00000000000e",)),
        ("gpu-0000000A-00B0-0C00-D000-00000000000E", ("gpu-0000000a-00b0-0c00-d000-00000000000e",)),
        ("GPU-0000000g-00b0-0c00-d000-00000000000e", ()),
        ("GPU-0000000a-00b0-0c00-d000-00000000000e0", ()),
        ("0", ()),
    ],
)
def test_only_a_valid_gpu_uuid_is_an_identity(uuid: str, names: tuple[str, ...]) -> None:
    inventory = Inventory(gpus=(Gpu(index=0, uuid=uuid),))
    assert identities(inventory, a_node("n")) == names


def test_a_host_has_one_identity_for_each_of_its_names() -> None:
    inventory = Inventory(labels={"serial": "s", "host_id": "h"})
    node = a_node("n", topology=Topology(host="h"))
    assert identities(inventory, node) == (f"{node.provider}/h", f"{node.provider}/s")
