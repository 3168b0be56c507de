"""What operators ask of autoscaling: checked."""

import math

from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    ScheduledSettings,
)
from navarch.core.errors import InvalidError
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.schedule import Window, is_time_zone

DEPTH_MAX = 8
"""How deep strategies may be nested: more is a mistake, or somebody who wants to hurt us."""


def check_autoscaling(asked: Autoscaling, path: str = "autoscaling", depth: int = 1) -> None:
    """Raise InvalidError, naming the field, if no autoscaler can be made of `asked`."""
    if depth > DEPTH_MAX:
        raise InvalidError(f"{path}: nested deeper than {DEPTH_MAX}")
    if len(asked.given) != 1:
        raise InvalidError(f"{path}: give one strategy, not {len(asked.given)}")
    path = f"{path}.{asked.given[0]}"
    match asked.settings:
        case ReactiveSettings() as settings:
            _check_reactive(settings, path)
        case QueueSettings(jobs_per_node=jobs):
            _check_count(jobs, f"{path}.jobs_per_node", least=1)
        case ScheduledSettings() as settings:
            _check_scheduled(settings, path)
            _check_fallback(settings.fallback, path, depth)
        case PredictiveSettings() as settings:
            _check_predictive(settings, path)
            _check_fallback(settings.fallback, path, depth)
        case CompositeSettings(members=members):
            if not members:
                raise InvalidError(f"{path}.members: at least one is required")
            for index, member in enumerate(members):
                check_autoscaling(member, f"{path}.members[{index}]", depth + 1)
        case CostAwareSettings() as settings:
            _check_cost_aware(settings, path)


def _check_reactive(settings: ReactiveSettings, path: str) -> None:
    _check_percent(settings.scale_up_at, f"{path}.scale_up_at")
    _check_percent(settings.scale_down_at, f"{path}.scale_down_at")
    if settings.scale_down_at >= settings.scale_up_at:
        raise InvalidError(f"{path}.scale_up_at: must be above scale_down_at")


def _check_scheduled(settings: ScheduledSettings, path: str) -> None:
    _check_zone(settings.time_zone, path)
    if not settings.windows:
        raise InvalidError(f"{path}.windows: at least one is required")
    for index, window in enumerate(settings.windows):
        _check_window(window, f"{path}.windows[{index}]")


def _check_predictive(settings: PredictiveSettings, path: str) -> None:
    _check_count(settings.lookback_window, f"{path}.lookback_window", least=2)
    if not 0 < settings.growth_factor <= 100:
        raise InvalidError(f"{path}.growth_factor: must be above 0 and at most 100")


def _check_cost_aware(settings: CostAwareSettings, path: str) -> None:
    _check_zone(settings.time_zone, path)
    _check_percent(settings.scale_up_at, f"{path}.scale_up_at")
    _check_nodes(settings.off_peak_nodes, f"{path}.off_peak_nodes")
    _check_hours(settings.peak_start, settings.peak_end, path, "peak_start")


def _check_fallback(fallback: Autoscaling | None, path: str, depth: int) -> None:
    if fallback is not None:
        check_autoscaling(fallback, f"{path}.fallback", depth + 1)


def _check_window(window: Window, path: str) -> None:
    _check_hours(window.start, window.end, path, "start")
    low, high = window.nodes_min, window.nodes_max
    for name, bound in (("nodes_min", low), ("nodes_max", high)):
        if bound is not None:
            _check_nodes(bound, f"{path}.{name}")
    if low is not None and high is not None and low > high:
        raise InvalidError(f"{path}.nodes_min: cannot exceed nodes_max")


def _check_hours(start: int, end: int, path: str, name: str) -> None:
    if not (0 <= start < 24 and 0 <= end <= 24):
        raise InvalidError(f"{path}.{name}: hours go from 0 to 24")
    if start == end:
        raise InvalidError(f"{path}.{name}: the hours from {start} to {end} are none")


def _check_zone(zone: str, path: str) -> None:
    if not is_time_zone(zone):
        raise InvalidError(f"{path}.time_zone: there is no {zone!r}; write one like Europe/Berlin")


def _check_percent(value: float, path: str) -> None:
    if not (math.isfinite(value) and 0 <= value <= 100):
        raise InvalidError(f"{path}: must be 0 to 100")


def _check_nodes(value: int, path: str) -> None:
    if not 0 <= value <= NODES_PER_POOL_MAX:
        raise InvalidError(
            f"{path}: must be 0 to {NODES_PER_POOL_MAX}, the limit of nodes per pool"
        )


def _check_count(value: int, path: str, *, least: int) -> None:
    if not least <= value <= 1_000_000:
        raise InvalidError(f"{path}: must be {least} to 1000000")
