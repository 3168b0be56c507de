"""Validation, storage and encoding of autoscaling settings."""

import msgspec
import pytest

from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    Day,
    Mode,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    ScheduledSettings,
    Window,
)
from navarch.core.errors import InvalidError
from navarch.core.pool import Pool
from navarch.ports.api import PoolSpec
from navarch.service.specs import check_autoscaling
from navarch.service.views import pool_spec
from navarch.testing.worlds import a_pool
from navarch.wire.messages import read_message, write_message
from navarch.wire.v1 import fleet_pb2

REACTIVE = Autoscaling(reactive=ReactiveSettings())


def scheduled(*windows: Window, time_zone: str = "UTC") -> Autoscaling:
    return Autoscaling(scheduled=ScheduledSettings(windows=windows, time_zone=time_zone))


def nested(depth: int) -> Autoscaling:
    found = REACTIVE
    for _ in range(depth):
        found = Autoscaling(composite=CompositeSettings(members=(found,)))
    return found


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Autoscaling(), "autoscaling: give one strategy, not 0"),
        (
            Autoscaling(reactive=ReactiveSettings(), queue=QueueSettings()),
            "autoscaling: give one strategy, not 2",
        ),
        (
            Autoscaling(reactive=ReactiveSettings(scale_up_at=20)),
            "autoscaling.reactive.scale_up_at: must be above scale_down_at",
        ),
        (
            Autoscaling(reactive=ReactiveSettings(scale_up_at=float("nan"))),
            "autoscaling.reactive.scale_up_at: must be 0 to 100",
        ),
        (
            Autoscaling(queue=QueueSettings(jobs_per_node=0)),
            "autoscaling.queue.jobs_per_node: must be 1 to 1000000",
        ),
        (scheduled(), "autoscaling.scheduled.windows: at least one is required"),
        (
            scheduled(Window(start=9, end=9)),
            "autoscaling.scheduled.windows[0].start: the hours from 9 to 9 are empty",
        ),
        (
            scheduled(Window(), Window(start=-1)),
            "autoscaling.scheduled.windows[1].start: hours go from 0 to 24",
        ),
        (
            scheduled(Window(nodes_min=3, nodes_max=2)),
            "autoscaling.scheduled.windows[0].nodes_min: cannot exceed nodes_max",
        ),
        (
            scheduled(Window(), time_zone="Mars/Olympus"),
            "autoscaling.scheduled.time_zone: unknown time zone 'Mars/Olympus'; "
            "write one like Europe/Berlin",
        ),
        (
            Autoscaling(predictive=PredictiveSettings(lookback_window=1)),
            "autoscaling.predictive.lookback_window: must be 2 to 1000000",
        ),
        (
            Autoscaling(predictive=PredictiveSettings(growth_factor=float("nan"))),
            "autoscaling.predictive.growth_factor: must be above 0 and at most 100",
        ),
        (
            Autoscaling(predictive=PredictiveSettings(fallback=Autoscaling())),
            "autoscaling.predictive.fallback: give one strategy, not 0",
        ),
        (
            Autoscaling(composite=CompositeSettings(members=())),
            "autoscaling.composite.members: at least one is required",
        ),
        (
            Autoscaling(cost_aware=CostAwareSettings(peak_start=24)),
            "autoscaling.cost_aware.peak_start: hours go from 0 to 24",
        ),
    ],
)
def test_autoscaling_that_cannot_work_is_refused_with_its_path(
    asked: Autoscaling, message: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        check_autoscaling(asked)

    assert str(caught.value) == message


def test_strategies_can_be_nested_up_to_a_limit() -> None:
    check_autoscaling(nested(7))
    with pytest.raises(InvalidError, match="nested deeper than 8"):
        check_autoscaling(nested(8))


EVERYTHING = Autoscaling(
    composite=CompositeSettings(
        mode=Mode.AVG,
        members=(
            REACTIVE,
            Autoscaling(queue=QueueSettings(jobs_per_node=3)),
            scheduled(
                Window(days=(Day.FRIDAY, Day.SUNDAY), start=22, end=6, nodes_max=2),
                time_zone="Europe/Berlin",
            ),
            Autoscaling(predictive=PredictiveSettings(growth_factor=2.5, fallback=REACTIVE)),
            Autoscaling(cost_aware=CostAwareSettings(off_peak_nodes=1)),
        ),
    )
)


def test_settings_survive_the_store_and_both_encodings() -> None:
    pool = a_pool(autoscaling=EVERYTHING)
    spec = pool_spec(pool)
    check_autoscaling(EVERYTHING)

    assert msgspec.json.decode(msgspec.json.encode(pool), type=Pool) == pool
    assert msgspec.json.decode(msgspec.json.encode(spec), type=PoolSpec) == spec
    assert read_message(PoolSpec, write_message(spec, fleet_pb2.PoolSpec())) == spec


def test_an_unknown_day_is_refused_on_the_wire() -> None:
    message = fleet_pb2.Window(days=[fleet_pb2.DAY_UNSPECIFIED])

    with pytest.raises(InvalidError, match="days"):
        read_message(Window, message)
