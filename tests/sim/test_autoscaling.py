"""Autoscaled pools follow their load, in virtual time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.support.seeds import seeds

from navarch.core.autoscaling import (
    Autoscaling,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    ScheduledSettings,
    Window,
)
from navarch.core.errors import MetricsError
from navarch.core.event import about
from navarch.core.ids import NodeId, PoolName
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.autoscaler import PoolMetrics, PoolState, Recommendation
from navarch.ports.store import Committed
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.world import Story, World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")
HOUR = 3600.0
DAY = 24 * HOUR

REACTIVE = Autoscaling(reactive=ReactiveSettings())
QUEUE = Autoscaling(queue=QueueSettings(jobs_per_node=1))


@dataclass
class Demand:
    """Load of a pool, spread over its serving nodes or pinned to some of them."""

    busy_nodes: Callable[[float], float] = lambda _: 0.0
    """Number of nodes that the load would fill, by seconds since the start."""
    pinned: dict[NodeId, float] = field(default_factory=dict)
    jobs: PoolMetrics = field(default_factory=PoolMetrics)
    lost: bool = False
    world: World | None = None
    sizes: list[int] = field(default_factory=list)

    def join(self, world: World) -> None:
        """Become the load of `world`, and check that it removes no busy node."""
        self.world = world
        world.hosts.load = self.load
        world.leadership.metrics = self
        world.store.subscribe(self.watch)

    def load(self, node: NodeId) -> float:
        assert self.world is not None
        if node in self.pinned:
            return self.pinned[node]
        serving = len(self.world.serving(TRAINING))
        if node not in self.world.serving(TRAINING):
            return 0.0
        return min(100.0 * self.busy_nodes(self.world.clock.monotonic()) / serving, 100.0)

    async def pool_metrics(self, _pool: PoolName) -> PoolMetrics:
        if self.lost:
            raise MetricsError("the queue does not answer")
        return self.jobs

    def watch(self, committed: Committed) -> None:
        for pool in committed.change.pools:
            if not self.sizes or self.sizes[-1] != pool.size:
                self.sizes.append(pool.size)
        for node in committed.change.nodes:
            before = committed.before.nodes.get(node.id)
            if before and before.serving and node.retiring and node.retiring.surplus:
                assert self.load(node.id) < 80, f"{node.id} was busy: {node.retiring.reason}"

    @property
    def reversals(self) -> int:
        """Number of times that the pool changed from growing to shrinking or back."""
        steps = [b - a for a, b in pairwise(self.sizes)]
        return sum((a > 0) != (b > 0) for a, b in pairwise(steps))


def a_scaled_pool(low: int, high: int, autoscaling: Autoscaling | None, **settings: object) -> Pool:
    pool = a_pool(size=low, nodes_max=high, autoscaling=autoscaling)
    return evolve(pool, **settings)  # type: ignore[arg-type]


def run(story: Story, pool: Pool, demand: Demand, *, seed: int = 1) -> World:
    return simulate(story, seed=seed, pools=[pool], prepare=demand.join)


def size(world: World) -> int:
    return world.fleet().pools[TRAINING].size


def reasons(world: World, kind: str) -> list[str]:
    return [line.split(": ", 1)[1] for line in world.trace if f" {kind}: " in line]


async def serving(world: World, count: int, *, within_s: float = HOUR) -> None:
    await world.until(lambda: len(world.serving(TRAINING)) == count, within_s=within_s)


@pytest.mark.parametrize("seed", seeds(50, gate=2))
def test_a_pool_follows_a_noisy_day_without_flapping_or_removing_busy_nodes(seed: int) -> None:
    """One rise and one fall a day; the noise of every half minute must not show in the size."""
    noise = SeededEntropy(f"{seed}/noise")

    def day(now_s: float) -> float:
        wave = 3.0 - 2.5 * math.cos(2 * math.pi * now_s / DAY)
        return max(wave + noise.uniform(-0.4, 0.4), 0.0)

    demand = Demand(busy_nodes=day)

    async def story(world: World) -> None:
        while world.clock.monotonic() < DAY:
            await world.clock.sleep(600)
            now = world.clock.monotonic()
            if now > HOUR:
                wanted = 3.0 - 2.5 * math.cos(2 * math.pi * now / DAY)
                assert size(world) >= wanted * 0.9, f"{size(world)} nodes for {wanted:.1f} at {now}"
        assert max(demand.sizes) in (6, 7, 8)
        assert size(world) <= 4
        assert demand.reversals <= 3, demand.sizes

    run(story, a_scaled_pool(1, 10, REACTIVE), demand, seed=seed)


def test_steady_load_keeps_a_steady_size() -> None:
    demand = Demand(busy_nodes=lambda _: 1.4)

    async def story(world: World) -> None:
        await world.clock.sleep(DAY / 2)
        assert demand.sizes == [2]

    run(story, a_scaled_pool(1, 10, REACTIVE, nodes_wanted=2), demand)


def test_a_pool_shrinks_to_zero_and_grows_again_for_queued_jobs() -> None:
    demand = Demand()

    async def story(world: World) -> None:
        demand.jobs = PoolMetrics(pending_jobs=2, queue_depth=2)
        await serving(world, 2)
        demand.jobs = PoolMetrics()
        await world.until(lambda: not world.nodes(TRAINING), within_s=HOUR)
        await world.clock.sleep(HOUR)
        assert size(world) == 0
        demand.jobs = PoolMetrics(pending_jobs=1, queue_depth=1)
        await serving(world, 1)

    run(story, a_scaled_pool(0, 4, QUEUE), demand)


def test_a_reactive_pool_grows_from_zero_too() -> None:
    demand = Demand()

    async def story(world: World) -> None:
        await world.clock.sleep(HOUR)
        assert size(world) == 0
        demand.jobs = PoolMetrics(pending_jobs=1)
        await serving(world, 1)

    run(story, a_scaled_pool(0, 4, REACTIVE), demand)


def test_waiting_requests_grow_a_pool_at_any_utilisation() -> None:
    demand = Demand()

    async def story(world: World) -> None:
        await serving(world, 1)
        demand.jobs = PoolMetrics(nodes_needed=4)
        await serving(world, 4)
        await world.clock.sleep(HOUR)
        assert size(world) == 4
        assert "1 to 4 nodes: the work that runs and waits needs 4 nodes" in reasons(
            world, "pool.scaled"
        )

    run(story, a_scaled_pool(1, 8, REACTIVE), demand)


def test_manual_scaling_takes_effect_at_once_and_lasts_through_the_next_evaluation() -> None:
    demand = Demand()

    async def story(world: World) -> None:
        await serving(world, 1)
        for nodes in (4, 6):
            await world.ask(lambda fleet, n=nodes: fleet.scale(TRAINING, n, reason="a rush"))  # type: ignore[misc]
        assert size(world) == 6
        await world.clock.sleep(290)
        assert size(world) == 6
        await world.until(lambda: size(world) == 1, within_s=2 * HOUR)
        scaled = reasons(world, "pool.scaled")
        assert scaled[:2] == ["1 to 4 nodes: a rush", "4 to 6 nodes: a rush"]
        assert scaled[2] == "6 to 5 nodes: reactive: utilization 0.0% < 20% threshold, for 300s"

    run(story, a_scaled_pool(1, 8, REACTIVE), demand)


def test_a_pool_above_a_lowered_maximum_shrinks_by_drain() -> None:
    demand = Demand(busy_nodes=lambda _: 2.0)

    async def story(world: World) -> None:
        await serving(world, 4)
        lowered = replace(pool_spec(world.fleet().pools[TRAINING]), nodes_max=2, nodes_wanted=None)
        await world.ask(lambda fleet: fleet.put_pool(lowered, reason="too dear"))
        await serving(world, 2)
        await world.until(lambda: len(world.nodes(TRAINING)) == 2, within_s=HOUR)
        drained = {name for what, name in world.workloads.calls if what == "drain"}
        assert drained == {f"training-{n}" for n in range(4)} - set(world.serving(TRAINING))

    run(story, a_scaled_pool(1, 4, REACTIVE, nodes_wanted=4), demand)


def test_idle_nodes_are_removed_before_busy_ones_of_any_age() -> None:
    """The oldest node is the busy one, so age alone must not decide."""
    demand = Demand()

    async def story(world: World) -> None:
        demand.pinned[NodeId("training-0")] = 75.0
        await serving(world, 5)
        await world.until(lambda: size(world) <= 3, within_s=2 * HOUR)
        await world.clock.sleep(HOUR)
        assert "training-0" in world.serving(TRAINING)

    run(story, a_scaled_pool(1, 8, REACTIVE, nodes_wanted=5), demand)


def test_an_autoscaler_does_not_shrink_a_pool_of_busy_nodes() -> None:
    demand = Demand(busy_nodes=lambda _: 9.0)

    async def story(world: World) -> None:
        await serving(world, 3)
        await world.clock.sleep(2 * HOUR)
        assert size(world) == 3
        (reason,) = reasons(world, "pool.not_scaled")
        assert reason.startswith("stays at 3 nodes, which are in use; else 1 would do: queue: ")

    run(story, a_scaled_pool(1, 8, QUEUE, nodes_wanted=3), demand)


def test_a_pool_that_shrinks_less_than_requested_records_the_reason() -> None:
    demand = Demand()

    async def story(world: World) -> None:
        demand.pinned |= {NodeId("training-0"): 75.0, NodeId("training-1"): 75.0}
        await serving(world, 4)
        await world.until(lambda: size(world) == 2, within_s=2 * HOUR)
        assert reasons(world, "pool.scaled")[-1].endswith("; nodes in use stay")

    run(story, a_scaled_pool(1, 8, QUEUE, nodes_wanted=4), demand)


class ScriptedAutoscaler:
    """Returns the recommendation that the test sets, or raises the error."""

    name = "changing"
    answer: object = Recommendation(target_nodes=2, reason="fine")

    def recommend(self, _state: PoolState) -> Recommendation:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (RuntimeError("no idea"), "RuntimeError: no idea"),
        (None, "None is no recommendation"),
        (Recommendation(target_nodes=-3, reason=""), "-3 is no number of nodes"),
        (Recommendation(target_nodes=2.5, reason=""), "2.5 is no number of nodes"),  # type: ignore[arg-type]
        (Recommendation(target_nodes=True, reason=""), "True is no number of nodes"),
    ],
)
def test_an_autoscaler_that_fails_is_reported_once_and_changes_nothing(
    answer: object, words: str
) -> None:
    demand = Demand()
    changing = ScriptedAutoscaler()

    def prepare(world: World) -> None:
        demand.join(world)
        world.leadership.autoscalers[TRAINING] = changing

    async def story(world: World) -> None:
        await serving(world, 2)
        changing.answer = answer
        await world.clock.sleep(HOUR)
        assert size(world) == 2
        (reason,) = reasons(world, "pool.not_scaled")
        assert reason.startswith("stays at 2 nodes: autoscaler changing failed: ")
        assert words in reason
        (cause,) = reasons(world, "extension.failed")
        assert cause.endswith("; until it works again, the pool keeps its size")
        changing.answer = Recommendation(target_nodes=3, reason="better")
        await serving(world, 3)
        assert reasons(world, "extension.recovered") == ["autoscaler changing no longer fails"]
        why = await world.ask(lambda fleet: fleet.why(about("pool", TRAINING)))
        assert {"extension.failed", "extension.recovered"} <= {step.kind for step in why.steps}

    pool = a_scaled_pool(1, 4, None)
    simulate(story, seed=1, pools=[pool], prepare=prepare)


class NamelessAutoscaler:
    """Raises an error when its name is read."""

    @property
    def name(self) -> str:
        raise LookupError("no idea")

    def recommend(self, _state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=3, reason="three will do")


def test_a_pool_is_scaled_by_an_autoscaler_without_a_name() -> None:
    demand = Demand()

    def prepare(world: World) -> None:
        demand.join(world)
        world.leadership.autoscalers[TRAINING] = NamelessAutoscaler()

    async def story(world: World) -> None:
        await serving(world, 3)
        (reason,) = reasons(world, "pool.scaled")
        assert "NamelessAutoscaler: three will do" in reason

    simulate(story, seed=1, pools=[a_scaled_pool(1, 4, None)], prepare=prepare)


def test_lost_metrics_are_reported_and_shrink_no_pool() -> None:
    demand = Demand(jobs=PoolMetrics(queue_depth=3))

    async def story(world: World) -> None:
        await serving(world, 3)
        demand.lost = True
        await world.clock.sleep(2 * HOUR)
        assert size(world) == 3
        assert reasons(world, "pool.not_scaled") == [
            "stays at 3 nodes: no metrics: the queue does not answer"
        ]

    run(story, a_scaled_pool(1, 8, QUEUE), demand)


def test_a_schedule_sizes_a_pool_by_the_clock_of_its_time_zone() -> None:
    """The story begins at noon UTC, 21 o'clock in Tokyo; the night there begins at 22."""
    night = Window(start=22, end=6, nodes_min=3)
    scheduled = ScheduledSettings(windows=(night,), time_zone="Asia/Tokyo")

    async def story(world: World) -> None:
        hour = world.clock.now().hour
        await serving(world, 1)
        until_night = (13 - hour) % 24 * HOUR
        await world.clock.sleep(until_night - 2 * 60 - world.clock.monotonic() % HOUR)
        assert size(world) == 1
        await world.clock.sleep(4 * 60)
        assert size(world) == 3
        await world.clock.sleep(8 * HOUR)
        assert size(world) in (1, 2, 3)
        await world.until(lambda: size(world) == 1, within_s=HOUR)

    run(story, a_scaled_pool(1, 4, Autoscaling(scheduled=scheduled)), Demand())


def test_a_pool_with_only_unhealthy_nodes_gets_another() -> None:
    """B21: the reference's reactive autoscaler needed one healthy node to act at all."""
    demand = Demand(busy_nodes=lambda _: 1.0)

    async def story(world: World) -> None:
        await serving(world, 2)
        for node in world.serving(TRAINING):
            world.fail(node, "XID 79: GPU has fallen off the bus")
        await serving(world, 0)
        await serving(world, 2, within_s=2 * HOUR)
        assert any("healthy nodes below minimum" in each for each in reasons(world, "pool.scaled"))

    run(story, a_scaled_pool(2, 6, REACTIVE, auto_replace=False, cooldown=timedelta(0)), demand)


def test_a_node_that_is_being_replaced_does_not_grow_the_pool() -> None:
    demand = Demand(busy_nodes=lambda _: 1.0)

    async def story(world: World) -> None:
        await serving(world, 2)
        victim, other = world.serving(TRAINING)
        world.fail(victim, "GPU 3 cannot be read", fatal=False, lasting=False)
        await world.until(lambda: victim not in world.serving(TRAINING), within_s=HOUR)
        await serving(world, 2)
        await world.clock.sleep(HOUR)
        assert demand.sizes == [2]
        assert other in world.serving(TRAINING)

    run(story, a_scaled_pool(2, 6, REACTIVE), demand)


@pytest.mark.parametrize(
    "nonsense",
    [
        PoolMetrics(utilization=math.nan),
        PoolMetrics(utilization=-1.0),
        PoolMetrics(queue_depth=-1),
        PoolMetrics(pending_jobs=1.5),  # type: ignore[arg-type]
        None,
    ],
)
def test_invalid_metrics_change_nothing(nonsense: PoolMetrics) -> None:
    async def story(world: World) -> None:
        await serving(world, 3)
        await world.clock.sleep(HOUR)
        assert size(world) == 3
        (reason,) = reasons(world, "pool.not_scaled")
        assert reason.startswith("stays at 3 nodes: no metrics: ")

    demand = Demand(jobs=nonsense)
    run(story, a_scaled_pool(1, 8, QUEUE, nodes_wanted=3), demand)


def test_a_daily_peak_is_predicted_even_after_a_crash() -> None:
    """B18: the reference's history was a heap of samples, node by node, and lost at a restart."""

    def rush(now_s: float) -> float:
        return 5.0 if 10 <= now_s % DAY / HOUR < 12 else 0.3

    demand = Demand(busy_nodes=rush)
    predictive = PredictiveSettings(fallback=REACTIVE)

    async def story(world: World) -> None:
        await world.clock.sleep(DAY)
        world.crash()
        await world.clock.sleep(9 * HOUR)
        assert size(world) <= 2
        await world.clock.sleep(HOUR - 30)
        assert len(world.serving(TRAINING)) >= 5, demand.sizes
        await world.clock.sleep(6 * HOUR)
        assert size(world) <= 2

    run(story, a_scaled_pool(1, 10, Autoscaling(predictive=predictive)), demand)


@pytest.mark.parametrize("seed", seeds(30, gate=10))
def test_an_autoscaled_pool_settles_after_any_storm(seed: int) -> None:
    chance = SeededEntropy(f"{seed}/demand")
    demand = Demand()

    async def story(world: World) -> None:
        for _ in range(6):
            demand.jobs = PoolMetrics(queue_depth=int(chance.uniform(0, 8)))
            await world.clock.sleep(chance.uniform(60, 1500))
            if chance.uniform(0, 1) < 0.5:
                world.crash()
        demand.jobs = PoolMetrics(queue_depth=4)
        await world.until(lambda: size(world) == 4, within_s=2 * HOUR)
        await world.converge()

    pool = a_scaled_pool(1, 6, QUEUE)
    simulate(story, seed=seed, pools=[pool], habits=STORMY, error_rate=0.2, prepare=demand.join)
