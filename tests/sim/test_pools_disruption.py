"""Sound nodes are replaced without a gap in service; broken ones not all at once."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.seeds import seeds

from navarch.core.disruption import Disruption, DisruptionBudget
from navarch.core.event import about
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits
from navarch.service.views import pool_spec
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")
OLD = Disruption(
    lifetime_max=timedelta(hours=2), budgets=(DisruptionBudget(nodes_max=2, share_max=0.0),)
)


def lowest(world: World) -> Iterator[int]:
    """Yield, at each step, the lowest number of serving nodes so far."""
    seen = [len(world.serving(TRAINING))]

    def watch(committed: Committed) -> None:
        seen.append(sum(x.serving for x in committed.after.in_pool(TRAINING).values()))

    world.store.subscribe(watch)
    while True:
        yield min(seen)


@pytest.mark.parametrize("seed", seeds(10, gate=4))
@pytest.mark.parametrize("habits", [Habits(), replace(STORMY, dead_on_arrival=0.2)])
def test_a_pool_replaces_all_of_its_nodes_without_ever_being_short(
    seed: int, habits: Habits
) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=7200)
        first = set(world.serving(TRAINING))
        low = lowest(world)
        assert next(low) == 4
        await world.until(lambda: not first & set(world.serving(TRAINING)), within_s=4 * 3600)
        assert next(low) == 4
        # The bill is compared at the end, so the storm must let the listings catch up.
        world.cloud.habits = world.cloud.habits.calm()
        await world.clock.sleep(600)

    pool = a_pool(size=4, nodes_max=8, disruption=OLD, boot_deadline=timedelta(minutes=10))
    simulate(story, seed=seed, pools=[pool], habits=habits)


@pytest.mark.parametrize("seed", range(5))
def test_spares_take_over_before_a_replacement_has_booted(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 6, within_s=3600)
        low = lowest(world)
        assert next(low) == 6
        for victim in world.serving(TRAINING)[:2]:
            world.fail(victim, "XID 79")
        await world.clock.sleep(2 * 3600)
        assert next(low) == 4
        assert len(world.serving(TRAINING)) == 6

    simulate(story, seed=seed, pools=[a_pool(size=4, nodes_max=8, spares=2)])


@pytest.mark.parametrize("seed", range(5))
def test_a_reclaimed_node_is_drained_within_its_notice_and_replaced(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.agent(victim).results["spot_notice"] = CheckResult(
            check="spot_notice", health=Health.DEGRADED, reason="at 12:02"
        )
        drain = ("drain", victim)
        await world.until(lambda: drain in world.workloads.calls, within_s=100)
        await world.clock.sleep(20)
        world.reclaim(victim)
        await world.until(
            lambda: len(world.serving(TRAINING)) == 2 and victim not in world.serving(TRAINING),
            within_s=900,
        )

    simulate(story, seed=seed, pools=[a_pool(size=2)])


@pytest.mark.parametrize("seed", range(5))
def test_when_most_of_a_pool_breaks_at_once_it_is_replaced_one_node_at_a_time(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 10, within_s=3600)
        victims = world.serving(TRAINING)[:8]
        for victim in victims:
            world.fail(victim, "XID 79", lasting=False)
        await world.until(lambda: world.fleet().pools[TRAINING].held is not None, within_s=120)
        early = len([node for node in world.nodes(TRAINING) if node.retiring])
        for _ in range(20):
            await world.clock.sleep(10)
            leaving = [node for node in world.nodes(TRAINING) if node.retiring]
            assert len(leaving) <= max(early, 1)
        gone = [x for x in victims if x not in {node.id for node in world.nodes(TRAINING)}]
        assert len(gone) < 8
        for victim in victims:
            if victim not in gone:
                world.agent(victim).results["xid"] = CheckResult(check="xid", health=Health.HEALTHY)
        await world.clock.sleep(1800)
        assert world.fleet().pools[TRAINING].held is None
        assert len(world.serving(TRAINING)) == 10
        kinds = [e.event.kind for e in await world.store.events(about=about("pool", TRAINING))]
        assert "pool.held" in kinds
        assert kinds[-1] == "pool.released"

    simulate(story, seed=seed, pools=[a_pool(size=10, nodes_max=14)])


@pytest.mark.parametrize("seed", range(10))
def test_idle_nodes_are_given_back_and_busy_ones_are_kept(seed: int) -> None:
    busy = {NodeId("training-0"), NodeId("training-2")}

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 5, within_s=3600)
        began = world.clock.monotonic()
        await world.until(lambda: len(world.nodes(TRAINING)) < 5, within_s=3600)
        assert world.clock.monotonic() - began > 8 * 60, "they were watched for the whole window"
        world.crash()
        await world.clock.sleep(3600)
        assert set(world.serving(TRAINING)) == busy
        assert len(world.nodes(TRAINING)) == 2
        assert world.fleet().pools[TRAINING].size == 2

    def prepare(world: World) -> None:
        world.hosts.load = lambda node: 90.0 if node in busy else 0.0

    lean = Disruption(empty_after=timedelta(minutes=10))
    pool = a_pool(size=1, nodes_max=5, nodes_wanted=5, disruption=lean)
    simulate(story, seed=seed, pools=[pool], prepare=prepare, error_rate=0.05)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_shrinking_pool_removes_idle_nodes_before_the_oldest(seed: int, by_hand: bool) -> None:
    busy = {NodeId("training-0"), NodeId("training-3")}

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3600)
        await world.clock.sleep(120)
        lowered = replace(pool_spec(world.fleet().pools[TRAINING]), nodes_max=2, nodes_wanted=None)
        if by_hand:
            await world.ask(lambda fleet: fleet.scale(TRAINING, 2, reason="less to do"))
        else:
            await world.ask(lambda fleet: fleet.put_pool(lowered, reason="too dear"))
        await world.until(lambda: len(world.nodes(TRAINING)) == 2, within_s=1800)
        assert set(world.serving(TRAINING)) == busy

    def prepare(world: World) -> None:
        world.hosts.load = lambda node: 90.0 if node in busy else 0.0

    pool = a_pool(size=1, nodes_max=4, nodes_wanted=4)
    simulate(story, seed=seed, pools=[pool], prepare=prepare)


@pytest.mark.parametrize("seed", range(10))
def test_a_replacement_is_cancelled_when_its_reason_is_gone(seed: int) -> None:
    """Maintenance is cancelled while the successor boots: the successor is removed."""

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        before = set(world.serving(TRAINING))
        victim = world.serving(TRAINING)[0]
        world.agent(victim).results["maintenance"] = CheckResult(
            check="maintenance", health=Health.DEGRADED, reason="on Sunday"
        )
        await world.until(
            lambda: any(node.replaces == victim for node in world.nodes(TRAINING)), within_s=300
        )
        world.agent(victim).results["maintenance"] = CheckResult(
            check="maintenance", health=Health.HEALTHY
        )
        await world.clock.sleep(3600)
        assert set(world.serving(TRAINING)) == before
        assert len(world.nodes(TRAINING)) == 3
        assert ("drain", victim) not in world.workloads.calls

    simulate(story, seed=seed, pools=[a_pool(size=3, nodes_max=5)])


@pytest.mark.parametrize("seed", [28, 64, 264])
def test_lost_messages_of_a_sound_node_do_not_take_a_pool_under_its_floor(seed: int) -> None:
    """Agents resend lost messages at once; waiting for the next heartbeat is too late."""
    name = PoolName("training")
    served: list[int] = []

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(name)) == 6, within_s=4 * 3600)

        def watch(committed: Committed) -> None:
            served.append(sum(node.serving for node in committed.after.in_pool(name).values()))

        leave = world.store.subscribe(watch)
        for victim in world.serving(name)[:2]:
            world.fail(victim, "XID 79")
        await world.clock.sleep(1800)
        leave()
        await world.converge()

    pool = a_pool(size=4, nodes_max=9, spares=2)
    simulate(story, seed=seed, pools=[pool], habits=STORMY, error_rate=0.1)
    assert min(served) >= 4
