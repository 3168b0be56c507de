"""The built-in autoscalers: the Go system's vectors, and its corrected faults."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from navarch.autoscale.factory import build_autoscaler
from navarch.autoscale.predictive import Predictive
from navarch.autoscale.strategies import Composite, CostAware, Queue, Reactive, Scheduled
from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    Day,
    Mode,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    Schedule,
    ScheduledSettings,
    Window,
)
from navarch.core.ids import PoolName
from navarch.core.records import evolve
from navarch.ports.autoscaler import Load, PoolMetrics, PoolState, Recommendation

SATURDAY = datetime(2026, 1, 3, 10, 0, tzinfo=UTC)


def a_state(
    nodes: int = 5,
    *,
    low: int = 1,
    high: int = 10,
    healthy: int | None = None,
    starting: int = 0,
    now: datetime = SATURDAY,
    **metrics: object,
) -> PoolState:
    return PoolState(
        pool=PoolName("training"),
        now=now,
        current_nodes=nodes,
        healthy_nodes=nodes - starting if healthy is None else healthy,
        starting_nodes=starting,
        min_nodes=low,
        max_nodes=high,
        metrics=PoolMetrics(**metrics),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("nodes", "used", "target", "reason"),
    [
        (5, 85.0, 6, "utilization 85.0% > 80% threshold"),
        (5, 15.0, 4, "utilization 15.0% < 20% threshold"),
        (5, 50.0, 5, "no scaling needed"),
        (5, 80.0, 5, "no scaling needed"),
        (5, 20.0, 5, "no scaling needed"),
        (10, 90.0, 10, "utilization 90.0% > 80% threshold"),
        (1, 0.0, 1, "utilization 0.0% < 20% threshold"),
    ],
)
def test_reactive_takes_one_step_past_a_threshold(
    nodes: int, used: float, target: int, reason: str
) -> None:
    advice = Reactive().recommend(a_state(nodes, utilization=used))

    assert advice == Recommendation(target_nodes=target, reason=reason)


def test_reactive_fills_a_pool_below_its_minimum() -> None:
    advice = Reactive().recommend(a_state(1, low=3))

    assert advice == Recommendation(target_nodes=3, reason="below minimum: 1 < 3")


@pytest.mark.parametrize("healthy", [0, 1, 2])
def test_reactive_adds_a_node_when_too_few_are_healthy(healthy: int) -> None:
    """The Go system did nothing without a healthy node."""
    advice = Reactive().recommend(a_state(3, low=3, healthy=healthy))

    assert advice.target_nodes == 4
    assert advice.reason == f"healthy nodes below minimum: {healthy} < 3"


def test_reactive_does_not_count_starting_nodes_as_unhealthy() -> None:
    assert Reactive().recommend(a_state(3, low=3, starting=3)).reason != "healthy nodes below"
    assert Reactive().recommend(a_state(3, low=3, starting=3, utilization=50.0)).target_nodes == 3


def test_reactive_waits_for_starting_nodes() -> None:
    """In the Go system every round during a slow boot bought another machine."""
    advice = Reactive().recommend(a_state(6, starting=2, utilization=90.0))

    assert advice.target_nodes == 6
    assert advice.reason == "utilization 90.0%, 2 nodes on their way"
    assert (
        Reactive().recommend(a_state(21, high=30, starting=1, utilization=99.0)).target_nodes == 22
    )


def test_reactive_starts_a_node_for_pending_jobs_of_an_empty_pool() -> None:
    advice = Reactive().recommend(a_state(0, low=0, pending_jobs=3))

    assert advice == Recommendation(target_nodes=1, reason="3 pending jobs and no node")


def test_reactive_does_not_shrink_while_jobs_are_pending() -> None:
    assert Reactive().recommend(a_state(5, pending_jobs=1)).target_nodes == 5


@pytest.mark.parametrize(
    ("depth", "low", "target"),
    [(50, 1, 5), (5, 1, 1), (11, 1, 2), (200, 1, 10), (0, 3, 3), (0, 0, 0)],
)
def test_queue_keeps_enough_nodes_for_its_jobs(depth: int, low: int, target: int) -> None:
    assert Queue().recommend(a_state(low=low, queue_depth=depth)).target_nodes == target


def test_queue_gives_its_calculation_as_the_reason() -> None:
    advice = Queue().recommend(a_state(queue_depth=11))

    assert advice.reason == "queue depth 11 requires 2 nodes (10 jobs/node)"


def test_queue_counts_pending_jobs_without_a_queue_depth() -> None:
    assert Queue().recommend(a_state(pending_jobs=35)).target_nodes == 4


OFFICE = Schedule(windows=(Window(start=9, end=17, nodes_min=10, nodes_max=50),))


def test_scheduled_applies_its_fallback_within_the_bounds_of_the_hour() -> None:
    advice = Scheduled(schedule=OFFICE, fallback=Reactive()).recommend(a_state(5, utilization=50.0))

    assert advice.target_nodes == 10
    assert advice.reason == "every day 9:00 to 17:00: reactive: below minimum: 5 < 10"


def test_scheduled_without_fallback_keeps_the_lower_bound() -> None:
    scheduled = Scheduled(schedule=OFFICE)

    assert scheduled.recommend(a_state(5)).target_nodes == 10
    assert scheduled.recommend(a_state(5, now=SATURDAY.replace(hour=20))).target_nodes == 1


NIGHT = Window(days=(Day.FRIDAY,), start=22, end=6)


@pytest.mark.parametrize(
    ("day", "hour", "holds"),
    [
        (2, 21, False),
        (2, 22, True),
        (2, 23, True),
        (3, 0, True),
        (3, 5, True),
        (3, 6, False),
        (3, 22, False),
        (2, 3, False),
    ],
)
def test_a_window_past_midnight_belongs_to_the_day_it_begins_on(
    day: int, hour: int, holds: bool
) -> None:
    """January 2, 2026 is a Friday."""
    assert NIGHT.holds(datetime(2026, 1, day, hour, tzinfo=UTC)) is holds


@pytest.mark.parametrize(
    ("month", "hour", "holds"), [(1, 7, False), (1, 8, True), (7, 6, False), (7, 7, True)]
)
def test_windows_follow_local_time_in_summer_and_winter(month: int, hour: int, holds: bool) -> None:
    schedule = Schedule(windows=(Window(start=9, end=17),), time_zone="Europe/Berlin")

    assert (schedule.window_at(datetime(2026, month, 7, hour, tzinfo=UTC)) is not None) is holds


@pytest.mark.parametrize(
    ("saturday", "hours"),
    [
        (datetime(2026, 3, 21, tzinfo=UTC), 8.0),
        (datetime(2026, 3, 28, tzinfo=UTC), 7.0),
        (datetime(2026, 10, 24, tzinfo=UTC), 9.0),
    ],
    ids=["a usual night", "clocks go forward", "clocks go back"],
)
def test_a_window_past_midnight_ends_in_local_time_when_clocks_change(
    saturday: datetime, hours: float
) -> None:
    night = Window(days=(Day.SATURDAY,), start=22, end=6)
    schedule = Schedule(windows=(night,), time_zone="Europe/Berlin")

    moments = [saturday + timedelta(minutes=minute) for minute in range(48 * 60)]
    within = [moment for moment in moments if schedule.window_at(moment)]

    assert len(within) / 60 == hours
    assert within[-1] - within[0] == timedelta(hours=hours, minutes=-1), "and in one piece"
    berlin = ZoneInfo("Europe/Berlin")
    assert (within[0].astimezone(berlin).hour, within[-1].astimezone(berlin).hour) == (22, 5)


def test_the_first_matching_window_applies() -> None:
    weekend = Window(days=(Day.SATURDAY, Day.SUNDAY), nodes_max=2)
    schedule = Schedule(windows=(weekend, *OFFICE.windows))

    assert schedule.window_at(SATURDAY) is weekend


@pytest.mark.parametrize(
    ("growth", "history", "nodes", "target"),
    [(1.5, (50, 55, 60, 65, 70), 5, 7), (2.0, (55, 60, 65, 70, 75), 8, 10)],
)
def test_predictive_follows_a_rising_trend(
    growth: float, history: tuple[float, ...], nodes: int, target: int
) -> None:
    settings = PredictiveSettings(lookback_window=5, growth_factor=growth)

    advice = Predictive(settings=settings).recommend(
        a_state(nodes, utilization=history[-1], utilization_history=history)
    )

    assert advice.target_nodes == target
    assert "trend: 20.0" in advice.reason


def test_one_outlier_does_not_invert_the_trend() -> None:
    """Last minus first, as in the Go system, would be a fall of 49 points."""
    history = (99, 54, 58, 62, 66, 70, 74, 78, 82, 50)
    advice = Predictive().recommend(a_state(5, utilization=82.0, utilization_history=history))

    assert advice.target_nodes >= 5


def test_predictive_shrinks_but_not_below_the_current_load() -> None:
    falling = (60, 55, 50, 45, 40, 35, 30, 25, 20, 15)
    advice = Predictive().recommend(a_state(10, utilization=42.0, utilization_history=falling))

    assert advice.target_nodes == 6


def test_predictive_uses_its_fallback_while_it_has_too_little_data() -> None:
    state = a_state(5, utilization=85.0, utilization_history=(85.0,))

    assert Predictive().recommend(state).reason == "insufficient history"
    advice = Predictive(fallback=Reactive()).recommend(state)
    assert advice.target_nodes == 6
    assert advice.reason == "insufficient history; reactive: utilization 85.0% > 80% threshold"


def loads(*, days: int, busy_at: int, nodes: float) -> list[Load]:
    """Return quarters of an hour that are idle except for one hour of each day."""
    start = SATURDAY.replace(hour=0) - timedelta(days=days)
    return [
        Load(at=at, busy_nodes=nodes if at.hour == busy_at else 0.0)
        for at in (start + timedelta(minutes=15 * i) for i in range(days * 96))
    ]


@pytest.mark.parametrize("days", [1, 3, 8])
def test_predictive_buys_ahead_of_the_rush_of_earlier_days(days: int) -> None:
    flat = (5.0,) * 10
    state = a_state(2, utilization=5.0, utilization_history=flat)
    history = loads(days=days, busy_at=11, nodes=7.0)
    before = evolve(state, now=SATURDAY.replace(hour=10, minute=50))
    long_before = evolve(state, now=SATURDAY.replace(hour=9))

    metrics = evolve(state.metrics, load_history=history)

    assert Predictive().recommend(evolve(before, metrics=metrics)).target_nodes == 10
    assert Predictive().recommend(evolve(long_before, metrics=metrics)).target_nodes == 1


def test_predictive_starts_an_empty_pool_for_the_rush_of_earlier_days() -> None:
    history = loads(days=2, busy_at=11, nodes=3.5)
    now = SATURDAY.replace(hour=10, minute=50)

    advice = Predictive().recommend(a_state(0, low=0, now=now, load_history=history))

    assert advice.target_nodes == 5


def test_a_weekend_is_predicted_from_the_last_weekend() -> None:
    start = SATURDAY.replace(hour=0) - timedelta(days=8)
    history = [
        Load(at=at, busy_nodes=0.5 if at.weekday() >= 5 else 9.0)
        for at in (start + timedelta(minutes=15 * i) for i in range(8 * 96))
    ]
    flat = (25.0,) * 10

    advice = Predictive().recommend(
        a_state(2, utilization=25.0, utilization_history=flat, load_history=history)
    )

    assert advice.target_nodes == 1


@pytest.mark.parametrize(("mode", "target"), [(Mode.MAX, 6), (Mode.MIN, 5), (Mode.AVG, 5)])
def test_composite_combines_recommendations_and_reasons(mode: Mode, target: int) -> None:
    members = [
        Reactive(settings=ReactiveSettings(scale_up_at=70, scale_down_at=30)),
        Reactive(settings=ReactiveSettings(scale_up_at=90, scale_down_at=10)),
    ]
    advice = Composite(members=members, mode=mode).recommend(a_state(5, utilization=75.0))

    assert advice.target_nodes == target
    assert advice.reason == (
        f"{mode} of 2 autoscalers: [reactive 6: utilization 75.0% > 70% threshold; "
        "reactive 5: no scaling needed]"
    )


class Broken:
    name = "broken"

    def recommend(self, _state: PoolState) -> Recommendation:
        raise RuntimeError("out of order")


def test_composite_does_not_shrink_while_a_member_fails() -> None:
    advice = Composite(members=[Queue(), Broken()]).recommend(a_state(5))

    assert advice.target_nodes == 5
    assert "broken failed: RuntimeError('out of order')" in advice.reason
    grown = Composite(members=[Queue(), Broken()]).recommend(a_state(5, queue_depth=80))
    assert grown.target_nodes == 8


class Muddled:
    name = "muddled"

    def recommend(self, _state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=2.5, reason="between two")  # type: ignore[arg-type]


def test_composite_leaves_out_a_member_with_an_invalid_recommendation() -> None:
    advice = Composite(members=[Queue(), Muddled()]).recommend(a_state(5))

    assert advice.target_nodes == 5
    assert "2.5 is no number of nodes" in advice.reason


def test_composite_fails_if_every_member_fails() -> None:
    with pytest.raises(ValueError, match="all autoscalers failed"):
        Composite(members=[Broken()]).recommend(a_state())


@pytest.mark.parametrize(
    ("hour", "used", "target"), [(10, 85.0, 6), (10, 30.0, 4), (10, 60.0, 5), (20, 95.0, 2)]
)
def test_cost_aware_is_small_off_peak(hour: int, used: float, target: int) -> None:
    cost_aware = CostAware(settings=CostAwareSettings(off_peak_nodes=2))

    now = SATURDAY.replace(hour=hour)
    assert cost_aware.recommend(a_state(5, now=now, utilization=used)).target_nodes == target


def test_cost_aware_matches_the_documented_example() -> None:
    """At three in the morning, ten nodes, half of them busy, with a peak from nine to six."""
    settings = CostAwareSettings(peak_start=9, peak_end=18, scale_up_at=80, off_peak_nodes=2)
    state = a_state(10, high=20, now=SATURDAY.replace(hour=3), utilization=50.0)

    advice = CostAware(settings=settings).recommend(state)

    assert advice == Recommendation(target_nodes=2, reason="off-peak hours, scaling to minimum")
    assert CostAware(settings=settings).recommend(evolve(state, min_nodes=3)).target_nodes == 3


def test_every_strategy_can_be_built_from_its_stored_settings() -> None:
    reactive = Autoscaling(reactive=ReactiveSettings())
    asked = Autoscaling(
        composite=CompositeSettings(
            mode=Mode.MIN,
            members=(
                Autoscaling(queue=QueueSettings(jobs_per_node=5)),
                Autoscaling(predictive=PredictiveSettings(fallback=reactive)),
                Autoscaling(cost_aware=CostAwareSettings()),
                Autoscaling(scheduled=ScheduledSettings(windows=OFFICE.windows, fallback=reactive)),
            ),
        )
    )
    advice = build_autoscaler(asked).recommend(a_state(5, utilization=85.0))

    assert advice.target_nodes == 1
    assert "scheduled 10: every day" in advice.reason
