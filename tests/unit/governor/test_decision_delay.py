"""The delay between a fault and its decision under load."""

import asyncio
from datetime import timedelta

from navarch.control.health.remediation import RemediationController
from navarch.control.providers.guard import Providers
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Condition, Health
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool, indexed


class SlowDisk(MemoryStore):
    """A store with commits of two seconds."""

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        await asyncio.sleep(2.0)
        return await super().commit(change, based_on=based_on)


def broken(name: str) -> Node:
    condition = Condition(
        check="xid/79/GPU-0", health=Health.UNHEALTHY, reason="XID 79", since=NOW, fatal=True
    )
    return evolve(a_node(name), health=Health.UNHEALTHY, conditions=(condition,))


def test_a_slow_disk_does_not_delay_the_next_fault() -> None:
    clock, store = SimClock(), SlowDisk(Cluster(id="c", secret=b"x" * 32))

    async def main() -> None:
        change = Change(pools=[a_pool(size=40)], nodes=[broken("training-0")])
        await store.commit(change, based_on=0)
        controller = RemediationController(
            clock,
            store,
            indexed(store),
            Providers([]),
            remediator=lambda _: CordonAndReplace(),
        )
        loop = ControllerDriver(clock, store, controller)
        await loop.reconcile()
        assert store.fleet().nodes[broken("training-0").id].retiring is not None

        change = Change(nodes=[broken("training-1")])
        await MemoryStore.commit(store, change, based_on=store.fleet().revision)

        due = loop.due_at()
        assert due is not None
        assert due - clock.now() <= timedelta(seconds=0.25)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
