"""Launches that share a call: fewer calls, one machine for each node, and none forgotten."""

from collections import Counter
from dataclasses import replace

import pytest

from navarch.core.ids import PoolName
from navarch.core.records import evolve
from navarch.providers.simulated import Habits
from navarch.sim.world.leader import CrashPoint
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, STORMY, a_pool

TRAINING = PoolName("training")
BULK = Habits(listing_lag_s=30.0, machines_per_call=8)
FORGETFUL = replace(BULK, remembers_shared_tokens=False)
"""Like EC2: the token of a launch that shared a call does not stop it from buying again."""


REGIONAL = replace(FORGETFUL, covers_zones=True)
"""Like Compute Engine: one call covers the zones of a region."""
ZONES = tuple(evolve(H100, zone=f"zone-{letter}") for letter in "abc")


async def whole(world: World) -> None:
    await world.until(lambda: len(world.serving(TRAINING)) == 6, within_s=7200)
    await world.converge()


def bought(world: World) -> Counter[str]:
    """Return how many machines were ever bought for each launch."""
    return Counter(machine.request.token for machine in world.cloud.machines.values())


def provider_calls(world: World) -> int:
    return world.leadership.crash_point.log.count("provision")


@pytest.mark.parametrize(("per_call", "calls"), [(8, 1), (6, 1), (4, 2), (1, 6)])
def test_nodes_that_are_needed_at_once_share_calls(per_call: int, calls: int) -> None:
    habits = replace(BULK, machines_per_call=per_call)
    world = simulate(whole, seed=1, pools=[a_pool(size=6)], habits=habits)
    assert provider_calls(world) == calls


def test_machines_that_a_shared_call_did_not_get_are_bought_elsewhere() -> None:
    big = evolve(H100, instance_type="h200-8x")
    habits = replace(BULK, stock={"h100-8x": 4, "h200-8x": 9})
    world = simulate(whole, seed=1, pools=[a_pool(size=6, offerings=(H100, big))], habits=habits)
    kinds = Counter(machine.request.instance_type for machine in world.cloud.alive())
    assert kinds == {"h100-8x": 4, "h200-8x": 2}
    assert provider_calls(world) == 2


def test_a_pool_without_stock_probes_with_one_call_for_all_its_nodes() -> None:
    async def drought(world: World) -> None:
        await world.clock.sleep(600)
        world.cloud.habits = BULK
        before = provider_calls(world)
        await whole(world)
        assert provider_calls(world) == before + 1

    habits = replace(BULK, stock={"h100-8x": 0})
    simulate(drought, seed=1, pools=[a_pool(size=6)], habits=habits)


def test_a_call_buys_in_all_zones_of_a_region() -> None:
    stock = {"zone-a/h100-8x": 1, "zone-b/h100-8x": 0, "zone-c/h100-8x": 9}
    pool = a_pool(size=6, offerings=ZONES)
    world = simulate(whole, seed=1, pools=[pool], habits=replace(REGIONAL, stock=stock))
    assert provider_calls(world) == 1
    bought_in = Counter(machine.request.zone for machine in world.cloud.alive())
    recorded = Counter(x.place.zone for x in world.nodes(TRAINING) if x.place)
    assert bought_in == recorded == {"zone-a": 1, "zone-c": 5}


def test_a_region_without_stock_is_probed_with_one_call_for_all_its_zones() -> None:
    def calls_in_ten_minutes(habits: Habits) -> int:
        async def drought(world: World) -> None:
            await world.clock.sleep(600)

        pool = a_pool(size=6, offerings=ZONES)
        sold_out = replace(habits, stock={"h100-8x": 0})
        return provider_calls(simulate(drought, seed=1, pools=[pool], habits=sold_out))

    assert 3 <= calls_in_ten_minutes(REGIONAL) * 2 < calls_in_ten_minutes(FORGETFUL)


@pytest.mark.parametrize(
    "trouble",
    [Habits(lie=0.9), Habits(mute=0.9), Habits(both=0.9), Habits(hang=0.9)],
    ids=["lie", "mute", "both", "hang"],
)
@pytest.mark.parametrize(
    "habits", [BULK, FORGETFUL, REGIONAL], ids=["remembers", "forgets", "covers zones"]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_shared_call_with_a_fault_buys_one_machine_for_each_launch(
    seed: int, habits: Habits, trouble: Habits
) -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(300)
        world.cloud.habits = habits
        await whole(world)

    troubled = replace(
        habits, lie=trouble.lie, mute=trouble.mute, both=trouble.both, hang=trouble.hang
    )
    pool = a_pool(size=6, offerings=ZONES)
    world = simulate(story, seed=seed, pools=[pool], habits=troubled)
    assert set(bought(world).values()) == {1}


async def a_busy_hour(world: World) -> None:
    """Fill a pool, lose two nodes, grow, shrink, come to rest."""
    await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3600)
    for node in world.serving(TRAINING)[:2]:
        world.fail(node, "XID 79: GPU has fallen off the bus")
    await world.clock.sleep(900)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 6, reason="more work"))
    await world.clock.sleep(300)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 4, reason="less work"))
    await world.clock.sleep(300)
    await world.converge()
    await world.clock.sleep(10)


POOL = a_pool(size=4, nodes_max=7, offerings=ZONES)
LOSING = replace(REGIONAL, lie=0.3, stock={"zone-a/h100-8x": 1, "zone-b/h100-8x": 3})
CHUNKS = 12


@pytest.mark.parametrize(
    "chunk",
    [0, 5, *(pytest.param(x, marks=pytest.mark.long) for x in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11))],
)
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_of_a_bulk_buyer_doubles_and_loses_no_machine(
    after: bool, chunk: int
) -> None:
    untouched = simulate(a_busy_hour, seed=1, pools=[POOL], habits=LOSING)
    calls = untouched.leadership.crash_point.calls
    for at in range(chunk, calls, CHUNKS):
        crash_point = CrashPoint(at=at, after=after)
        world = simulate(a_busy_hour, seed=1, pools=[POOL], habits=LOSING, crash_point=crash_point)
        assert world.leadership.crashes == 1, f"no crash at call {at} of {calls}"
        assert set(bought(world).values()) == {1}, f"crash at call {at}"


@pytest.mark.parametrize("seed", range(700, 710))
def test_a_storm_at_a_bulk_provider_doubles_and_loses_no_machine(seed: int) -> None:
    habits = replace(
        STORMY,
        machines_per_call=3,
        remembers_shared_tokens=bool(seed % 2),
        covers_zones=bool(seed % 3),
    )
    simulate(a_busy_hour, seed=seed, pools=[POOL], habits=habits, error_rate=0.1)
