"""Changes that cause drains to be planned."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO
from navarch.control.drains import DrainWatch
from navarch.control.operations import OperationRunner
from navarch.control.pool_indexes import PoolIndexes
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.workloads import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool

BROKEN = Retirement(reason="XID 79")


class Site:
    """A store and the planning of drains, with no plan due."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        clock, entropy = SimClock(), SeededEntropy("1")
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        errands = OperationRunner(clock, entropy, tasks, done=lambda: None, strict=True)
        workloads = SimWorkloads(clock, entropy)
        watch = DrainWatch(clock, self.store, workloads, errands, PoolIndexes(self.store))
        self.planning = watch.planning

    async def change(self, *nodes: Node) -> datetime | None:
        """Commit `nodes` and return when the next plan is due."""
        await self.store.commit(Change(nodes=nodes), based_on=self.store.fleet().revision)
        return self.planning.agenda.due_at()

    async def fill(self, *nodes: Node) -> None:
        await self.store.commit(Change(pools=[a_pool(size=2, nodes_max=3)]), based_on=0)
        await self.change(*nodes)
        await self.planning.reconcile()


def played(story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            await story(Site(tasks))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_no_plan_is_due_while_no_node_leaves() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0"))
        assert await site.change(a_node("training-1")) is None
        assert await site.change(a_node("training-0", retiring=BROKEN)) == LONG_AGO

    played(story)


def test_a_requested_replacement_makes_a_plan_due() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0", retiring=BROKEN), a_node("training-1"))
        asked_for = a_node("training-2", phase=Phase.REQUESTED)
        assert await site.change(asked_for) == LONG_AGO

    played(story)


def test_no_plan_is_due_after_the_last_drain() -> None:
    async def story(site: Site) -> None:
        draining = a_node("training-0", phase=Phase.DRAINING, since=NOW, retiring=BROKEN)
        other = evolve(draining, id=a_node("training-1").id)
        await site.fill(draining, other)
        date = site.planning.agenda.due_at()
        assert date not in (None, LONG_AGO), "work may still be there when the time is up"
        await site.change(evolve(draining, phase=Phase.TERMINATING))
        await site.planning.reconcile()
        assert site.planning.agenda.due_at() == date, "one is left"
        assert await site.change(evolve(other, phase=Phase.TERMINATING)) is None

    played(story)


def test_the_start_of_a_drain_makes_a_plan_due_at_its_timeout() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0"), a_node("training-1"))
        timeout = site.store.fleet().pools[a_pool().name].drain_timeout
        first, second = (
            a_node(name, phase=Phase.DRAINING, since=since, retiring=BROKEN)
            for name, since in (("training-0", NOW + timedelta(minutes=1)), ("training-1", NOW))
        )
        assert await site.change(first) == first.since + timeout
        assert await site.change(second) == second.since + timeout
        third = evolve(first, since=NOW + timedelta(minutes=2))
        await site.change(evolve(first, phase=Phase.READY))
        await site.planning.reconcile()
        assert await site.change(third) == second.since + timeout, "the earlier date stands"

    played(story)


def test_a_drain_that_starts_during_a_commit_makes_another_plan_due() -> None:
    async def story(site: Site) -> None:
        waiting = a_node("training-0", retiring=BROKEN)
        await site.fill(a_node("training-0"), a_node("training-1"), a_node("training-2"))
        await site.change(waiting)
        commit = site.store.commit
        late = a_node("training-1", phase=Phase.DRAINING, since=NOW, retiring=BROKEN)

        async def slow_commit(change: Change, *, based_on: int) -> Fleet:
            written = await commit(change, based_on=based_on)
            await commit(Change(nodes=[late]), based_on=written.revision)
            return written

        site.store.commit = slow_commit  # type: ignore[method-assign]
        await site.planning.reconcile()
        assert site.store.fleet().nodes[waiting.id].phase is Phase.DRAINING
        assert site.planning.agenda.due_at() == LONG_AGO, "the plan did not know of it"

    played(story)
