"""Gangs get all their machines within one block, or none."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from tests.support.seeds import seeds

from navarch.core.autoscaling import Autoscaling, ReactiveSettings
from navarch.core.event import about
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits
from navarch.sim.world.leader import CrashPoint
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, STORMY, a_pool

TRAINING = PoolName("training")
HOLD = timedelta(minutes=10)
NORTH = evolve(H100, zone="north")
SOUTH = evolve(H100, zone="south")


def gang_pool(
    size: int = 4, *, gang: int = 4, nodes_max: int | None = None, **more: object
) -> Pool:
    return a_pool(size=size, nodes_max=nodes_max, gang=gang, gang_hold=HOLD, **more)  # type: ignore[arg-type]


def blocks(world: World) -> Counter[str]:
    return Counter(world.machine(node).block for node in world.serving(TRAINING))


def watch_gangs(world: World) -> None:
    """Fail at the first revision at which a part of a gang serves."""

    def watch(committed: Committed) -> None:
        served(committed.after, committed.before)

    def served(after: Fleet, before: Fleet) -> None:
        for node in after.in_pool(TRAINING).values():
            if node.gang is None or not node.serving:
                continue
            old = before.nodes.get(node.id)
            if old is not None and old.waiting and not node.waiting:
                mates = [x for x in after.in_pool(TRAINING).values() if x.gang == node.gang]
                standing = [world.machine(x.id) for x in mates if x.counts]
                assert len(standing) == node.gang.nodes, node.gang.id
                assert len({machine.block for machine in standing}) == 1, node.gang.id

    world.store.subscribe(watch)


@pytest.mark.parametrize("seed", range(20))
def test_a_gang_is_in_one_block_and_serves_only_when_it_is_whole(seed: int) -> None:
    async def story(world: World) -> None:
        watch_gangs(world)
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3 * 3600)
        assert len(blocks(world)) == 1
        node = world.fleet().nodes[world.serving(TRAINING)[0]]
        assert node.topology is not None
        assert node.topology.block == next(iter(blocks(world)))

    # Two blocks are too small: a gang that begins there is given up, and begins again.
    habits = Habits(blocks={"a": 3, "b": 2, "c": 4}, surveyed_after_s=30.0)
    pool = gang_pool(nodes_max=9)
    simulate(story, seed=seed, pools=[pool], habits=habits, prepare=watch_gangs)


@pytest.mark.parametrize("seed", range(10))
def test_a_gang_that_fits_no_block_is_given_back_and_no_part_of_it_ever_serves(
    seed: int,
) -> None:
    async def story(world: World) -> None:
        served: list[NodeId] = []
        world.store.subscribe(
            lambda done: served.extend(node.id for node in done.change.nodes if node.serving)
        )
        await world.until(lambda: len(world.cloud.alive()) == 3, within_s=600)
        await world.until(lambda: not world.cloud.alive(), within_s=3600)
        ended = [machine for machine in world.cloud.machines.values() if not machine.alive]
        longest = max((x.ended_at or x.launched_at) - x.launched_at for x in ended)
        assert longest < HOLD + timedelta(minutes=5)
        assert served == []
        names = {node.gang.id for node in world.fleet().nodes.values() if node.gang}
        for name in sorted(names)[:1]:
            story_ = await world.store.events(about=about("gang", name))
            assert [entry.event.kind for entry in story_] == ["gang.asked", "gang.given_up"]
            assert "3 of 4 machines in one block" in story_[1].event.reason

    simulate(story, seed=seed, pools=[gang_pool()], habits=Habits(blocks={"a": 3, "b": 3}))


@pytest.mark.parametrize("seed", range(10))
def test_a_gang_that_failed_in_one_place_is_tried_in_the_next(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=2 * 3600)
        assert {world.machine(node).request.zone for node in world.serving(TRAINING)} == {"south"}
        asked = [node.gang for node in world.fleet().nodes.values() if node.gang is not None]
        assert len(set(asked)) == 2, "one attempt in the north is enough"

    # In the north no block has room for four; in the south one has.
    pool = gang_pool(offerings=(NORTH, SOUTH), nodes_max=8)
    habits = Habits(blocks={"north/1": 2, "north/2": 3, "south/1": 4})
    simulate(story, seed=seed, pools=[pool], habits=habits)


@pytest.mark.parametrize("seed", range(10))
def test_a_broken_member_is_replaced_in_the_block_of_its_gang(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 8, within_s=3600)
        before = blocks(world)
        victim = world.serving(TRAINING)[5]
        home = world.machine(victim).block
        world.fail(victim, "XID 79")
        await world.until(
            lambda: len(world.serving(TRAINING)) == 8 and victim not in world.serving(TRAINING),
            within_s=1800,
        )
        assert blocks(world) == before
        heir = next(node for node in world.nodes(TRAINING) if node.replaces == victim)
        assert world.machine(heir.id).block == home

    pool = gang_pool(8, gang=4, nodes_max=10)
    simulate(story, seed=seed, pools=[pool], habits=Habits(blocks={"a": 6, "b": 6}))


@pytest.mark.parametrize("seed", range(10))
def test_a_gang_moves_as_a_whole_if_its_block_has_no_room_for_a_successor(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3600)
        (home,) = blocks(world)
        # Another customer gets the place of the broken machine as soon as it is free.
        world.cloud.habits = replace(world.cloud.habits, blocks={home: 3, "spacious": 4})
        low: list[int] = []
        world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=120)
        world.store.subscribe(
            lambda done: low.append(sum(n.serving for n in done.after.in_pool(TRAINING).values()))
        )
        await world.until(
            lambda: set(blocks(world)) == {"spacious"} and len(world.serving(TRAINING)) == 4,
            within_s=3600,
        )
        assert min(low) == 3, "the rest of the gang served until the new gang did"
        await world.until(lambda: len(world.cloud.alive()) == 4, within_s=1800)

    simulate(story, seed=seed, pools=[gang_pool(nodes_max=8)], habits=Habits(blocks={"a": 4}))


@pytest.mark.parametrize("seed", seeds(20, gate=6))
def test_gangs_survive_a_storm_with_crashes(seed: int) -> None:
    async def story(world: World) -> None:
        for quarter in range(8):
            await world.clock.sleep(900)
            if quarter % 2:
                world.crash()
            if world.serving(TRAINING):
                world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.converge(within_s=3 * 3600)
        assert len(world.serving(TRAINING)) == 4
        assert len(blocks(world)) == 1

    habits = replace(STORMY, blocks={"a": 3, "b": 6, "c": 5})
    pool = gang_pool(nodes_max=10)
    simulate(story, seed=seed, pools=[pool], habits=habits, error_rate=0.1, prepare=watch_gangs)


def rollback(crash_point: CrashPoint, seed: int = 7) -> World:
    """A gang that does not fit, is given back, and fits when a block has been enlarged."""

    async def story(world: World) -> None:
        await world.clock.sleep(HOLD.total_seconds() + 300)
        world.cloud.habits = replace(world.cloud.habits, blocks={"a": 5, "b": 1})
        # The cloud chooses the block at random, and each attempt takes ten minutes.
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=12 * 3600)
        assert len(blocks(world)) == 1
        await world.until(lambda: len(world.cloud.alive()) == 4, within_s=3600)

    return simulate(
        story,
        seed=seed,
        pools=[gang_pool()],
        habits=Habits(blocks={"a": 3, "b": 1}, listing_lag_s=20.0),
        crash_point=crash_point,
        prepare=watch_gangs,
    )


@pytest.mark.parametrize("part", seeds(4, gate=2))
@pytest.mark.parametrize("after", [False, True])
def test_a_gang_is_whole_or_given_back_wherever_the_control_plane_dies(
    after: bool, part: int
) -> None:
    calls = rollback(CrashPoint()).leadership.crash_point.log
    # Listings are left out: they change nothing, and there are hundreds.
    places = [at for at, what in enumerate(calls) if what not in ("list", "notices")]
    assert len(places) > 40
    for at in places[2 * part + (0 if after else 1) :: 8]:
        world = rollback(CrashPoint(at=at, after=after))
        assert world.leadership.crashes == 1, at


@pytest.mark.parametrize("seed", range(5))
def test_a_pool_of_gangs_shrinks_by_whole_gangs(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 8, within_s=3600)
        await world.ask(lambda fleet: fleet.scale(TRAINING, 4, reason="less to do"))
        await world.until(lambda: len(world.nodes(TRAINING)) == 4, within_s=1800)
        assert len({node.gang for node in world.nodes(TRAINING)}) == 1
        assert len(world.serving(TRAINING)) == 4

    pool = gang_pool(0, gang=4, nodes_max=8, nodes_wanted=8)
    simulate(story, seed=seed, pools=[pool], habits=Habits(blocks={"a": 4, "b": 4}))


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_that_is_being_bought_counts_as_demand_however_idle_the_pool_is(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=1800)
        world.cloud.habits = replace(world.cloud.habits, blocks={"a": 4, "b": 3})
        await world.ask(lambda fleet: fleet.scale(TRAINING, 8, reason="a gang is asked for"))
        # A minute of patience and no cooldown: the autoscaler would have shrunk it long ago.
        for _ in range(40):
            await world.clock.sleep(30)
            assert world.fleet().pools[TRAINING].size == 8
        assert sum(node.waiting for node in world.nodes(TRAINING)) == 4
        # Once it is there, an idle gang goes like an idle node, and as a whole.
        world.cloud.habits = replace(world.cloud.habits, blocks={"a": 4, "b": 4})
        await world.until(lambda: len(world.serving(TRAINING)) == 8, within_s=1800)
        await world.until(lambda: len(world.nodes(TRAINING)) == 4, within_s=1800)
        assert len({node.gang for node in world.nodes(TRAINING)}) == 1
        assert len(world.serving(TRAINING)) == 4

    def prepare(world: World) -> None:
        world.hosts.load = lambda _: 0.0

    pool = gang_pool(
        4,
        nodes_max=9,
        cooldown=timedelta(0),
        shrink_after=timedelta(minutes=1),
        autoscaling=Autoscaling(reactive=ReactiveSettings()),
    )
    pool = evolve(pool, gang_hold=timedelta(minutes=40))
    simulate(story, seed=seed, pools=[pool], habits=Habits(blocks={"a": 4}), prepare=prepare)


RESERVED = evolve(H100, reservation="r-1", reserved_nodes=2, price_per_hour=Decimal(0))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("storm", [False, True])
def test_reserved_machines_are_used_first_and_the_rest_is_bought_elsewhere(
    seed: int, storm: bool
) -> None:
    async def story(world: World) -> None:
        await world.converge()
        taken = Counter(m.request.reservation for m in world.cloud.alive())
        assert taken["r-1"] <= 2
        if not storm:
            assert taken == {"r-1": 2, "": 2}
            refused = [x for x in await world.store.launches() if x.refusal is not None]
            assert refused == [], "the reservation was counted, not tried"

    habits = replace(STORMY if storm else Habits(), reservations={"r-1": 2})
    # The reserved offering is listed last but used first, because it is paid for.
    pool = a_pool(size=4, nodes_max=6, offerings=(H100, RESERVED))
    simulate(story, seed=seed, pools=[pool], habits=habits)


@pytest.mark.parametrize("seed", range(10))
def test_a_shared_reservation_that_is_full_is_left(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3600)
        taken = Counter(m.request.reservation for m in world.cloud.alive())
        assert taken == {"r-1": 1, "": 3}

    unknown = evolve(RESERVED, reserved_nodes=None)
    pool = a_pool(size=4, nodes_max=6, offerings=(unknown, H100))
    simulate(story, seed=seed, pools=[pool], habits=Habits(reservations={"r-1": 1}))
