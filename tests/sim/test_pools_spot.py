"""Spot machines are used while cheap, left in time, and used again later."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.support.seeds import seeds

from navarch.core.disruption import Disruption, DisruptionBudget
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Notice, NoticeKind
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits
from navarch.sim.world.leader import CrashPoint
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, STORMY, a_pool

TRAINING = PoolName("training")
SPOT = evolve(H100, spot=True, price_per_hour=Decimal("30.00"))
PRICES, SPOT_PRICES = {"h100-8x": Decimal("98.32")}, {"h100-8x": Decimal("30.00")}
NOTICE_S = 120.0


def spot_pool(size: int = 3) -> Pool:
    return a_pool(
        size=size,
        nodes_max=size + 2,
        offerings=(SPOT, H100),
        drain_timeout=timedelta(seconds=60),
        disruption=Disruption(
            savings_min=0.3, budgets=(DisruptionBudget(nodes_max=1, share_max=0.0),)
        ),
    )


def priced(world: World) -> None:
    world.cloud.prices, world.cloud.spot_prices = PRICES, SPOT_PRICES


def on_spot(world: World, node: NodeId) -> bool:
    return world.machine(node).request.spot


def drained_at(world: World) -> Callable[[NodeId], float | None]:
    """Watch when nodes begin to drain."""
    began: dict[NodeId, float] = {}

    def watch(committed: Committed) -> None:
        for node in committed.change.nodes:
            if node.phase is Phase.DRAINING:
                began.setdefault(node.id, world.clock.monotonic())

    world.store.subscribe(watch)
    return began.get


@pytest.mark.parametrize("seed", range(20))
def test_what_a_provider_announces_drains_the_node_at_once_and_its_successor_is_bought_first(
    seed: int,
) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        began = drained_at(world)
        victim = world.serving(TRAINING)[0]
        noticed = world.clock.monotonic()
        world.give_notice(victim, after_s=NOTICE_S)

        await world.until(lambda: began(victim) is not None, within_s=30)
        assert (began(victim) or 0) - noticed < 20
        heirs = [node for node in world.nodes(TRAINING) if node.replaces == victim]
        await world.until(
            lambda: any(n.replaces == victim and n.instance for n in world.nodes(TRAINING)),
            within_s=NOTICE_S - (world.clock.monotonic() - noticed),
        )
        assert ("drain", victim) in world.workloads.calls, heirs
        await world.until(
            lambda: len(world.serving(TRAINING)) == 3 and victim not in world.serving(TRAINING),
            within_s=900,
        )

    habits = Habits(announces=True, stock={"h100-8x spot": 5, "h100-8x": 5})
    simulate(story, seed=seed, pools=[spot_pool()], habits=habits, prepare=priced)


@pytest.mark.parametrize("seed", range(5))
def test_a_notice_that_is_cancelled_in_time_is_forgotten(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        machine = world.machine(victim).id

        def failing_checks() -> list[str]:
            return [condition.check for condition in world.fleet().nodes[victim].conditions]

        world.cloud.announce(machine, Notice(kind=NoticeKind.MAINTENANCE, reason="on Sunday"))
        await world.until(lambda: failing_checks() == ["maintenance/provider"], within_s=30)
        # A report of the machine without maintenance does not clear its provider's notice.
        world.agent(victim).results["maintenance"] = CheckResult(
            check="maintenance", health=Health.HEALTHY
        )
        await world.clock.sleep(300)
        assert failing_checks() == ["maintenance/provider"]
        world.cloud.announced.clear()
        await world.until(lambda: failing_checks() == [], within_s=30)
        assert victim in world.serving(TRAINING)

    # Without room for a successor no sound node is replaced, so the node stays observable.
    pool = a_pool(size=2, nodes_max=2)
    simulate(story, seed=seed, pools=[pool], habits=Habits(announces=True))


@pytest.mark.parametrize("savings_min", [0.3, None])
@pytest.mark.parametrize("seed", seeds(10, gate=3))
def test_without_spot_machines_a_pool_falls_back_to_on_demand_and_returns_when_there_are_some(
    seed: int, savings_min: float | None
) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        assert all(on_spot(world, node) for node in world.serving(TRAINING))
        # The market dries up: one machine is reclaimed, and no other spot machine is for sale.
        world.cloud.habits = replace(world.cloud.habits, stock={"h100-8x spot": 0, "h100-8x": 9})
        victim = world.serving(TRAINING)[0]
        world.give_notice(victim, after_s=NOTICE_S)
        await world.until(
            lambda: len(world.serving(TRAINING)) == 3 and victim not in world.serving(TRAINING),
            within_s=1800,
        )
        assert [on_spot(world, node) for node in world.serving(TRAINING)].count(False) == 1
        asked = len(await world.store.launches())
        low = [3]
        world.store.subscribe(
            lambda done: low.append(sum(n.serving for n in done.after.in_pool(TRAINING).values()))
        )
        # A pool that runs well hardly probes a dry market: one call in half an hour at most.
        await world.clock.sleep(4 * 3600)
        assert len(await world.store.launches()) - asked <= 8
        world.cloud.habits = replace(world.cloud.habits, stock={"h100-8x spot": 9, "h100-8x": 9})
        await world.until(
            lambda: (
                len(world.serving(TRAINING)) == 3
                and all(on_spot(world, node) for node in world.serving(TRAINING))
            ),
            within_s=2 * 3600,
        )
        assert min(low) == 3, "a node left before its successor served"

    habits = Habits(announces=True, stock={"h100-8x spot": 5, "h100-8x": 5})
    pool = spot_pool()
    pool = evolve(pool, disruption=replace(pool.disruption, savings_min=savings_min))
    simulate(story, seed=seed, pools=[pool], habits=habits, prepare=priced)


@pytest.mark.parametrize("seed", seeds(20, gate=6))
def test_a_pool_on_spot_machines_survives_a_storm_of_reclaims(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=7200)
        for hour in range(6):
            serving = world.serving(TRAINING)
            if serving:
                world.give_notice(serving[hour % len(serving)], after_s=30.0)
            if hour % 2:
                world.crash()
            await world.clock.sleep(1200)
        await world.converge()
        assert len(world.serving(TRAINING)) == 3

    habits = replace(STORMY, announces=True)
    simulate(story, seed=seed, pools=[spot_pool()], habits=habits, error_rate=0.1, prepare=priced)


CALLS = 36
"""Lower bound on the outside calls of the story below, counted from the notice."""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(0, CALLS, 2))
def test_a_notice_is_acted_on_wherever_the_control_plane_dies(at: int, after: bool) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        victim = world.serving(TRAINING)[0]
        world.leadership.crash_point.calls = 0
        world.leadership.crash_point.at = at
        world.leadership.crash_point.after = after
        world.give_notice(victim, after_s=NOTICE_S)
        await world.until(lambda: ("drain", victim) in world.workloads.calls, within_s=NOTICE_S)
        await world.until(
            lambda: len(world.serving(TRAINING)) == 2 and victim not in world.serving(TRAINING),
            within_s=1800,
        )
        assert world.leadership.crashes == 1, world.leadership.crash_point.calls

    habits = Habits(announces=True)
    simulate(
        story,
        seed=at,
        pools=[spot_pool(2)],
        habits=habits,
        prepare=priced,
        crash_point=CrashPoint(),
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_pool_does_not_return_to_spot_machines_that_never_come_up(seed: int) -> None:
    dead, sound = evolve(SPOT, zone="dead"), evolve(H100, zone="sound")

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        assert not any(on_spot(world, node) for node in world.serving(TRAINING))
        bought = len(world.cloud.machines)
        await world.clock.sleep(6 * 3600)
        assert len(world.cloud.machines) == bought, "nothing is the matter with what serves"

    pool = a_pool(str(TRAINING), size=3, nodes_max=6, offerings=(dead, sound))
    habits = Habits(dead_zones=frozenset({"dead"}))
    simulate(story, seed=seed, pools=[pool], habits=habits, prepare=priced)
