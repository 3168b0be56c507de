"""The delay between a fault and its decision under load."""

import asyncio
from datetime import timedelta

from navarch.control.providers import Providers
from navarch.control.remediation import RemediationReconciler
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Condition, Health
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool


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
        loop = RemediationReconciler(
            clock, store, Providers([]), remediator=lambda _: CordonAndReplace()
        )
        await loop.reconcile()
        assert store.fleet().nodes[broken("training-0").id].retiring is not None

        again_at = await loop.reconcile()

        assert again_at is not None
        assert again_at - clock.now() <= timedelta(seconds=0.25)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
