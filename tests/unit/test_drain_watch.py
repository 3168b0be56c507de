"""Which changes have drains planned."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

from navarch.control.agenda import LONG_AGO
from navarch.control.drains import DrainWatch
from navarch.control.errands import Errands
from navarch.control.rolls import Rolls
from navarch.core.fleet import Change
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster
from navarch.sim.clock import SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.sim.workloads import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool

BROKEN = Retirement(reason="XID 79")


class Site:
    """A store, and whoever plans drains around it, with nothing left to plan."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        clock, entropy = SimClock(), SeededEntropy("1")
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        errands = Errands(clock, entropy, tasks, done=lambda: None, strict=True)
        workloads = SimWorkloads(clock, entropy)
        watch = DrainWatch(clock, self.store, workloads, errands, Rolls(self.store))
        self.planning = watch.planning

    async def change(self, *nodes: Node) -> datetime | None:
        """Return from when on there is something to plan, once `nodes` are so."""
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


def test_nothing_is_planned_while_nobody_leaves() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0"))
        assert await site.change(a_node("training-1")) is None
        assert await site.change(a_node("training-0", retiring=BROKEN)) == LONG_AGO

    played(story)


def test_who_waits_for_a_replacement_hears_of_it() -> None:
    async def story(site: Site) -> None:
        await site.fill(a_node("training-0", retiring=BROKEN), a_node("training-1"))
        asked_for = a_node("training-2", phase=Phase.REQUESTED)
        assert await site.change(asked_for) == LONG_AGO

    played(story)


def test_when_the_last_has_left_no_date_is_kept() -> None:
    async def story(site: Site) -> None:
        draining = a_node("training-0", phase=Phase.DRAINING, since=NOW, retiring=BROKEN)
        other = replace(draining, id=a_node("training-1").id)
        await site.fill(draining, other)
        date = site.planning.due_at()
        assert date not in (None, LONG_AGO), "work may still be there when the time is up"
        await site.change(replace(draining, phase=Phase.TERMINATING))
        await site.planning.reconcile()
        assert site.planning.due_at() == date, "one is left"
        assert await site.change(replace(other, phase=Phase.TERMINATING)) is None

    played(story)
