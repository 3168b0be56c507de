"""Changes that cause drains to be planned."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from navarch.control.nodes.drain import DrainController, plan_drains_of
from navarch.control.runtime.operations import OperationRunner
from navarch.core.fleet import Change, Fleet
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.effects import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, ControllerDriver, a_job, a_node, a_pool, indexed

BROKEN = Retirement(reason="XID 79")


class Site:
    """A store and the planning of its drains."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        clock, entropy = SimClock(), SeededEntropy("1")
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        operations = OperationRunner(clock, entropy, tasks, strict=True)
        workloads = SimWorkloads(clock, entropy)
        drain = DrainController(clock, self.store, workloads, operations)
        planning = plan_drains_of(clock, self.store, indexed(self.store), drain)
        self.planning = ControllerDriver(clock, self.store, planning)
        self.now = clock.now()

    async def change(self, *nodes: Node) -> datetime | None:
        """Return when a plan is due after `nodes` are written."""
        await self.store.commit(Change(nodes=nodes), based_on=self.store.fleet().revision)
        return self.planning.due_at()

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


def test_a_new_node_or_a_leaving_one_has_its_pool_planned() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0"))
        assert await site.planning.reconcile() is None
        assert await site.change(a_node("training-0", cordoned="by hand")) is None
        assert await site.change(a_node("training-0", retiring=BROKEN)) == site.now

    played(story)


def test_the_pool_of_a_node_that_needs_a_successor_is_planned_when_one_is_requested() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0", retiring=BROKEN), a_node("training-1"))
        await site.planning.reconcile()
        assert await site.change(a_node("training-2", phase=Phase.REQUESTED)) == site.now

    played(story)


def test_a_pool_is_planned_again_when_the_first_of_its_drains_times_out() -> None:
    async def story(site: Site) -> None:
        draining = a_node("training-0", phase=Phase.DRAINING, since=NOW, retiring=BROKEN)
        later = evolve(draining, id=a_node("training-1").id, since=NOW + timedelta(minutes=1))
        await site.fill(draining, later)
        timeout = site.store.fleet().pools[a_pool().name].drain_timeout
        assert await site.planning.reconcile() == draining.since + timeout

        await site.change(evolve(draining, phase=Phase.TERMINATING))
        assert await site.planning.reconcile() == later.since + timeout

        await site.change(evolve(later, phase=Phase.TERMINATING))
        assert await site.planning.reconcile() is None

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
        assert site.planning.due_at() == site.now, "the plan did not know of it"

    played(story)


def test_a_drain_in_one_pool_has_the_other_pools_of_its_jobs_planned() -> None:
    async def story(site: Site) -> None:
        other, gang = a_node("other-0", "other"), a_job("gang", on=("training-0", "other-0"))
        await site.fill(a_node("training-0"), other)
        change = Change(pools=[a_pool("other")], jobs=[gang])
        await site.store.commit(change, based_on=site.store.fleet().revision)
        assert await site.planning.reconcile() is None
        await site.change(a_node("training-0", phase=Phase.DRAINING))
        queue = site.planning.controller.queue
        assert sorted(queue.take(site.now)) == ["other", "training"]

    played(story)
