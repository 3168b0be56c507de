"""Laws of sizing for any recommendation."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.autoscale.factory import build_autoscaler
from navarch.autoscale.strategies import Work, nodes_needed
from navarch.core.autoscaling import (
    DAYS,
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    Mode,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    Schedule,
    ScheduledSettings,
    Window,
)
from navarch.core.ids import PoolName
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.sizing import Opinion, bounds_at, plan_size
from navarch.ports.autoscaler import PoolMetrics, PoolState
from navarch.service.specs import check_autoscaling
from navarch.testing.worlds import NOW, a_pool

ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Auckland")

moments = st.integers(0, 3 * 366 * 24 * 60).map(
    lambda minutes: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)
windows = st.builds(
    Window,
    days=st.lists(st.sampled_from(DAYS), max_size=3).map(tuple),
    start=st.integers(0, 23),
    end=st.integers(0, 24),
    nodes_min=st.none() | st.integers(0, 3),
    nodes_max=st.none() | st.integers(3, 20),
).filter(lambda window: window.start != window.end)
leaves = st.one_of(
    st.builds(Autoscaling, reactive=st.just(ReactiveSettings())),
    st.builds(Autoscaling, queue=st.builds(QueueSettings, jobs_per_node=st.integers(1, 20))),
    st.builds(Autoscaling, cost_aware=st.just(CostAwareSettings(off_peak_nodes=2))),
)


def _above(below: st.SearchStrategy[Autoscaling]) -> st.SearchStrategy[Autoscaling]:
    scheduled = st.builds(
        ScheduledSettings,
        windows=st.lists(windows, min_size=1, max_size=3).map(tuple),
        time_zone=st.sampled_from(ZONES),
        fallback=st.none() | below,
    )
    composite = st.builds(
        CompositeSettings,
        members=st.lists(below, min_size=1, max_size=3).map(tuple),
        mode=st.sampled_from(Mode),
    )
    predictive = st.builds(PredictiveSettings, fallback=st.none() | below)
    return st.one_of(
        st.builds(Autoscaling, scheduled=scheduled),
        st.builds(Autoscaling, composite=composite),
        st.builds(Autoscaling, predictive=predictive),
    )


strategies = st.recursive(leaves, _above, max_leaves=5)
metrics = st.builds(
    PoolMetrics,
    utilization=st.floats(0, 100),
    pending_jobs=st.integers(0, 50),
    queue_depth=st.integers(0, 200),
    utilization_history=st.lists(st.floats(0, 100), max_size=20),
)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    low = draw(st.integers(0, 5))
    high = draw(st.integers(max(low, 1), 12))
    return evolve(
        a_pool(size=low, nodes_max=high),
        nodes_wanted=draw(st.none() | st.integers(low, high)),
        autoscaling=draw(st.none() | strategies),
        cooldown=timedelta(seconds=draw(st.integers(0, 600))),
        shrink_after=timedelta(seconds=draw(st.integers(0, 600))),
        scaled_at=draw(st.none() | st.just(NOW - timedelta(seconds=draw(st.integers(0, 900))))),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Opinion]:
    sizes = draw(st.lists(st.integers(0, 10**6), max_size=30))
    needed = draw(st.integers(0, 20))
    return [
        Opinion(
            at=NOW - timedelta(seconds=30 * (len(sizes) - 1 - i)),
            nodes=nodes,
            reason="so",
            nodes_needed=needed,
        )
        for i, nodes in enumerate(sizes)
    ]


@given(pools(), histories())
def test_a_size_is_always_within_the_current_bounds(pool: Pool, opinions: list[Opinion]) -> None:
    bounds = bounds_at(pool, NOW)
    sizing = plan_size(pool, opinions, now=NOW)

    assert pool.nodes_min <= bounds.nodes_min <= bounds.nodes_max <= pool.nodes_max
    assert bounds.nodes_min <= sizing.nodes <= bounds.nodes_max
    assert sizing.reason


@given(pools(), histories())
def test_a_pool_shrinks_only_if_every_recent_recommendation_is_lower(
    pool: Pool, opinions: list[Opinion]
) -> None:
    bounds = bounds_at(pool, NOW)
    sizing = plan_size(pool, opinions, now=NOW)
    if bounds.clamp(pool.size) != pool.size or sizing.nodes >= pool.size:
        return

    assert opinions[0].at <= NOW - pool.shrink_after
    recent = [each for each in opinions if each.at >= NOW - pool.shrink_after]
    assert sizing.nodes >= max(bounds.clamp(max(o.nodes, o.nodes_needed)) for o in recent)


@given(pools(), histories())
def test_nothing_but_bounds_changes_a_size_during_cooldown(
    pool: Pool, opinions: list[Opinion]
) -> None:
    fresh = evolve(pool, scaled_at=NOW, cooldown=timedelta(seconds=1))

    assert plan_size(fresh, opinions, now=NOW).nodes == bounds_at(fresh, NOW).clamp(fresh.size)


@given(pools(), st.integers(0, 20))
def test_a_pool_converges_to_a_constant_recommendation(pool: Pool, nodes: int) -> None:
    steady = [
        Opinion(at=NOW - timedelta(seconds=30 * i), nodes=nodes, reason="so")
        for i in reversed(range(30))
    ]
    ready = evolve(pool, scaled_at=None)
    rest = bounds_at(pool, NOW).clamp(nodes)
    for _ in range(2):
        ready = evolve(ready, nodes_wanted=plan_size(ready, steady, now=NOW).nodes)

    assert ready.size == rest
    assert plan_size(ready, steady, now=NOW).nodes == rest


@given(strategies, metrics, moments, st.integers(0, 12), st.integers(0, 5))
def test_every_strategy_returns_a_size_with_a_reason(
    asked: Autoscaling, known: PoolMetrics, now: datetime, nodes: int, low: int
) -> None:
    check_autoscaling(asked)
    state = PoolState(
        pool=PoolName("p"),
        now=now,
        current_nodes=nodes,
        healthy_nodes=nodes // 2,
        starting_nodes=nodes - nodes // 2,
        min_nodes=low,
        max_nodes=12,
        metrics=known,
    )
    autoscaler = build_autoscaler(asked)
    advice = autoscaler.recommend(state)

    assert type(advice.target_nodes) is int
    assert advice.target_nodes >= 0
    assert advice.reason
    assert autoscaler.recommend(state) == advice


@given(windows, moments, st.sampled_from(ZONES))
def test_a_window_and_its_complement_cover_the_day(
    window: Window, now: datetime, zone: str
) -> None:
    """Every moment is either in the window or in its complement."""
    every_day = replace(window, days=())
    rest = replace(every_day, start=window.end % 24, end=window.start or 24)
    holds = [
        Schedule(windows=(each,), time_zone=zone).window_at(now) is not None
        for each in (every_day, rest)
    ]
    whole = (window.start, window.end) == (0, 24)
    assert holds[0] if whole else sum(holds) == 1


@given(st.lists(st.builds(Work, gpus=st.integers(0, 20), parts=st.integers(1, 4)), max_size=12))
def test_the_size_always_covers_the_gpus_in_use(work: list[Work]) -> None:
    gpus = sum(each.gpus * each.parts for each in work)
    nodes = nodes_needed(work, 8)

    assert nodes >= -(-gpus // 8)
    assert nodes <= sum(each.parts * -(-each.gpus // 8) for each in work)
