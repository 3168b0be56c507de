"""The `autoscaling` block of a pool: a tree of strategies."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import ClassVar, TypeAlias

from navarch.config.block import Nested, Tagged
from navarch.config.context import Scope
from navarch.config.document import Tree
from navarch.config.kinds import COUNT, FACTORY, SETTINGS, Choice, Integer, Kind, ListOf, Real, Text
from navarch.config.schema import Fault, block, copied, key, repeated
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
    is_time_zone,
)
from navarch.core.limits import NODES_PER_POOL_MAX

PERCENT = Integer(least=0, most=100, example="80")
HOUR = Integer(least=0, most=24, example="9")
NODES = Integer(least=0, most=NODES_PER_POOL_MAX)
_A_MONDAY = datetime(2024, 1, 1)  # noqa: DTZ001 - local time in any zone


def _zone_remedy(text: str) -> str | None:
    """Return the remedy for a text that does not name a time zone, or None."""
    return None if is_time_zone(text) else "write one such as UTC, Europe/Berlin or US/Pacific"


TIME_ZONE = Text(noun="a time zone", example="Europe/Berlin", check=_zone_remedy)


class DayName:
    """A day by its English name or the first three letters, in upper or lower case."""

    noun = "a day of the week"

    def read(self, node: Tree, scope: Scope) -> Day:
        """Return the day."""
        leaf = scope.leaf(node, self.noun, "monday")
        for day in Day:
            if leaf.text.lower() in (day.value, day.value[:3]):
                return day
        message = f'{scope.label} must be {self.noun}, not "{leaf.shown}"'
        raise scope.refuse(leaf, message, "write monday or mon, tuesday or tue, and so on")

    def plain(self, value: Day) -> object:
        """Return its full name."""
        return value.value


def _thresholds_are_apart(scale_up_at: int, scale_down_at: int) -> Iterator[Fault]:
    if scale_up_at <= scale_down_at:
        yield Fault(
            f"scale_up_at ({scale_up_at}) must be above scale_down_at ({scale_down_at})",
            "leave a gap between them, or the pool alternates between growing and shrinking",
            at=("scale_up_at",),
        )


@block(rules=(_thresholds_are_apart,))
class ReactiveConfig:
    """Follows GPU utilization, one node at a time."""

    type: ClassVar[str] = "reactive"
    scale_up_at: int = key(PERCENT, "grow above this utilization, in percent", default=80)
    scale_down_at: int = key(PERCENT, "shrink below this utilization, in percent", default=20)


@block()
class QueueDepthConfig:
    """Follows the number of pending and running jobs."""

    type: ClassVar[str] = "queue"
    jobs_per_node: int = key(COUNT, "how many jobs one node runs at a time", default=10)


def _window_is_not_empty(start: int, end: int) -> Iterator[Fault]:
    if start in (end, 24):
        yield Fault(
            f"the window from {start} to {end} is empty",
            "write start: 0 and end: 24 for the whole day; end may be below start, "
            "for a window past midnight",
            at=("start",),
        )


def _window_bounds_are_in_order(min_nodes: int | None, max_nodes: int | None) -> Iterator[Fault]:
    if min_nodes is not None and max_nodes is not None and min_nodes > max_nodes:
        yield Fault(
            "min_nodes cannot exceed max_nodes",
            f"write min_nodes: {max_nodes} or less",
            at=("min_nodes",),
        )


def days_are_unique(days: tuple[Day, ...]) -> Iterator[Fault]:
    """Yield a fault for every duplicate day."""
    yield from values_are_unique("days", days)


def values_are_unique(key: str, values: Sequence[Enum]) -> Iterator[Fault]:
    """Yield a fault for every duplicate value in the list under `key`."""
    for place in repeated(values):
        message = f"{values[place].value} is listed twice"
        yield Fault(message, "keep the first of the two", at=(key, place))


@block(rules=(_window_is_not_empty, _window_bounds_are_in_order, days_are_unique))
class WindowConfig:
    """Hours of the day with bounds of their own."""

    days: tuple[Day, ...] = key(
        ListOf(each=DayName()), "the days on which it begins; every day if left out", default=()
    )
    start: int = key(HOUR, "the hour at which it begins", default=0)
    end: int = key(HOUR, "the hour at which it ends; on the next day if below `start`", default=24)
    min_nodes: int | None = key(
        NODES, "replaces the pool's `min_nodes` in these hours", default=None
    )
    max_nodes: int | None = key(
        NODES, "replaces the pool's `max_nodes` in these hours", default=None
    )


AUTOSCALING: Kind["AutoscalingConfig"] = Tagged(
    options=lambda _: AUTOSCALING_TYPES, unknown="unknown autoscaler type"
)
# A custom autoscaler sizes the whole pool: it cannot be stored as a member of another one.
_MEMBER: Kind["AutoscalingConfig"] = Tagged(
    options=lambda _: {k: v for k, v in AUTOSCALING_TYPES.items() if v is not CustomConfig},
    unknown="unknown autoscaler type",
)


def _windows_are_reachable(schedule: "tuple[WindowConfig, ...]") -> Iterator[Fault]:
    """Yield a fault for every window that earlier windows hide, as the first match applies."""
    hours = [_A_MONDAY + timedelta(hours=hour) for hour in range(7 * 24)]
    for place, config in enumerate(schedule):
        before = [_window(each) for each in schedule[:place]]
        held = [hour for hour in hours if _window(config).holds(hour)]
        if before and all(any(window.holds(hour) for window in before) for hour in held):
            yield Fault(
                "this window never applies: earlier windows cover all of its hours, "
                "and the first match applies",
                "move it up, or delete it",
                at=("schedule", place),
            )


@block(rules=(_windows_are_reachable,))
class ScheduledConfig:
    """Changes the bounds by the hour and the day; another strategy sizes the pool within them."""

    type: ClassVar[str] = "scheduled"
    schedule: tuple[WindowConfig, ...] = key(
        ListOf(each=Nested(cls=WindowConfig), empty=False),
        "windows; the first that covers the current hour applies",
    )
    time_zone: str = key(TIME_ZONE, "the time zone of hours and days", default="UTC")
    fallback: "AutoscalingConfig | None" = key(
        _MEMBER, "the strategy within the bounds; the lower bound if left out", default=None
    )


@block()
class PredictiveConfig:
    """Follows the trend of utilization."""

    type: ClassVar[str] = "predictive"
    lookback_window: int = key(
        Integer(least=2, most=100_000), "how many samples the trend is computed from", default=10
    )
    growth_factor: float = key(
        Real(least=0.01, most=100), "how far to extend the trend", default=1.2
    )
    fallback: "AutoscalingConfig | None" = key(
        _MEMBER, "the strategy while there are too few samples", default=None
    )


@block()
class CompositeConfig:
    """Combines the recommendations of several strategies."""

    type: ClassVar[str] = "composite"
    mode: Mode = key(
        Choice(options=Mode),
        "use the largest recommendation, the smallest, or the mean",
        default=Mode.MAX,
    )
    autoscalers: "tuple[AutoscalingConfig, ...]" = key(
        ListOf(each=_MEMBER, empty=False), "the strategies to combine"
    )


def _peak_is_not_empty(peak_start: int, peak_end: int) -> Iterator[Fault]:
    if peak_start in (peak_end, 24):
        yield Fault(
            f"the peak from {peak_start} to {peak_end} is empty",
            "write the first hour of the peak, such as peak_start: 9; "
            "peak_end may be below it, for a peak past midnight",
            at=("peak_start",),
        )


@block(rules=(_peak_is_not_empty,))
class CostAwareConfig:
    """Follows utilization at peak hours and keeps a fixed number of nodes off peak."""

    type: ClassVar[str] = "cost-aware"
    peak_start: int = key(HOUR, "the hour at which the peak begins", default=9)
    peak_end: int = key(
        HOUR, "the hour at which it ends; on the next day if below `peak_start`", default=18
    )
    time_zone: str = key(TIME_ZONE, "the time zone of the hours", default="UTC")
    scale_up_at: int = key(
        PERCENT, "at peak, grow above this utilization and shrink below half of it", default=80
    )
    off_peak_nodes: int = key(NODES, "how many nodes to keep off peak", default=0)


@block()
class CustomConfig:
    """A custom autoscaler, which takes precedence over everything else that sizes the pool."""

    type: ClassVar[str] = "custom"
    factory: str = key(
        FACTORY, "`module:Class`, or the name of an entry point in the group `navarch.autoscalers`"
    )
    settings: Mapping[str, str | int | float | bool] = key(
        SETTINGS, "keyword arguments of the factory", default_factory=dict
    )


AutoscalingConfig: TypeAlias = (
    ReactiveConfig
    | QueueDepthConfig
    | ScheduledConfig
    | PredictiveConfig
    | CompositeConfig
    | CostAwareConfig
    | CustomConfig
)

AUTOSCALING_TYPES: Mapping[str, type] = {
    cls.type: cls
    for cls in (
        ReactiveConfig,
        QueueDepthConfig,
        ScheduledConfig,
        PredictiveConfig,
        CompositeConfig,
        CostAwareConfig,
        CustomConfig,
    )
}


def strategies(config: AutoscalingConfig | None) -> Iterator[AutoscalingConfig]:
    """Yield a strategy and, recursively, its fallbacks and members."""
    if config is None:
        return
    yield config
    match config:
        case ScheduledConfig(fallback=fallback) | PredictiveConfig(fallback=fallback):
            yield from strategies(fallback)
        case CompositeConfig(autoscalers=autoscalers):
            for each in autoscalers:
                yield from strategies(each)


def to_autoscaling(config: AutoscalingConfig) -> Autoscaling | None:
    """Return a strategy as it is stored with its pool; None for a custom one."""
    match config:
        case CustomConfig():
            return None
        case ReactiveConfig():
            return Autoscaling(reactive=copied(ReactiveSettings, config))
        case QueueDepthConfig():
            return Autoscaling(queue=copied(QueueSettings, config))
        case ScheduledConfig():
            windows = tuple(_window(window) for window in config.schedule)
            fallback = config.fallback and to_autoscaling(config.fallback)
            return Autoscaling(
                scheduled=copied(ScheduledSettings, config, windows=windows, fallback=fallback)
            )
        case PredictiveConfig():
            fallback = config.fallback and to_autoscaling(config.fallback)
            return Autoscaling(predictive=copied(PredictiveSettings, config, fallback=fallback))
        case CompositeConfig():
            found = (to_autoscaling(each) for each in config.autoscalers)
            members = tuple(each for each in found if each is not None)
            return Autoscaling(composite=CompositeSettings(members=members, mode=config.mode))
        case CostAwareConfig():
            return Autoscaling(cost_aware=copied(CostAwareSettings, config))


def _window(config: WindowConfig) -> Window:
    return copied(Window, config, nodes_min=config.min_nodes, nodes_max=config.max_nodes)
