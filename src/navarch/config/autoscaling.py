"""Autoscaling: how a pool's size follows its load, as a tree of strategies."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, TypeAlias

from navarch.config.kinds import COUNT, Choice, Integer, Kind, ListOf, Real
from navarch.config.nesting import Nested, Tagged
from navarch.config.reading import Scope
from navarch.config.schema import Fault, block, key
from navarch.config.tree import Tree

PERCENT = Integer(least=0, most=100, example="80")
HOUR = Integer(least=0, most=24, example="9")
NODES = Integer(least=0, most=100_000)


class Mode(StrEnum):
    """How several opinions become one."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"


class Day(StrEnum):
    """A day of the week."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


class DayName:
    """A day by its English name or the first three letters of it, in any case."""

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


def _thresholds_apart(scale_up_at: int, scale_down_at: int) -> Iterator[Fault]:
    if scale_up_at <= scale_down_at:
        yield Fault(
            at=("scale_up_at",),
            message=f"scale_up_at ({scale_up_at}) must be above scale_down_at ({scale_down_at})",
            remedy="leave a gap between them, or the pool grows and shrinks in turn",
        )


@block(rules=(_thresholds_apart,))
class ReactiveConfig:
    """Follows GPU utilization, one node at a time."""

    type: ClassVar[str] = "reactive"
    scale_up_at: int = key(PERCENT, default=80, doc="grow above this utilization, in percent")
    scale_down_at: int = key(PERCENT, default=20, doc="shrink below this utilization, in percent")


@block()
class QueueConfig:
    """Follows the number of jobs that wait or run."""

    type: ClassVar[str] = "queue"
    jobs_per_node: int = key(COUNT, default=10, doc="how many jobs one node is meant for")


def _window_not_empty(start: int, end: int) -> Iterator[Fault]:
    if start in (end, 24):
        yield Fault(
            at=("start",),
            message=f"the window from {start} to {end} is empty",
            remedy="write start: 0 and end: 24 for the whole day; end may be below start, "
            "for a window past midnight",
        )


def _schedule_in_order(min_nodes: int | None, max_nodes: int | None) -> Iterator[Fault]:
    if min_nodes is not None and max_nodes is not None and min_nodes > max_nodes:
        yield Fault(
            at=("min_nodes",),
            message="min_nodes cannot exceed max_nodes",
            remedy=f"write min_nodes: {max_nodes} or less",
        )


@block(rules=(_window_not_empty, _schedule_in_order))
class WindowConfig:
    """Hours of the day in which other bounds hold."""

    days: tuple[Day, ...] = key(
        ListOf(each=DayName()), default=(), doc="the days it holds on; every day if left out"
    )
    start: int = key(HOUR, default=0, doc="the hour it begins")
    end: int = key(HOUR, default=24, doc="the hour it ends; below `start`, on the next day")
    min_nodes: int | None = key(NODES, default=None, doc="the pool's `min_nodes` meanwhile")
    max_nodes: int | None = key(NODES, default=None, doc="the pool's `max_nodes` meanwhile")


_AUTOSCALING: Kind["AutoscalingConfig"] = Tagged(
    options=lambda _: AUTOSCALING_TYPES, unknown="unknown autoscaler type"
)


@block()
class ScheduledConfig:
    """Follows the clock, and within the hour's bounds another strategy."""

    type: ClassVar[str] = "scheduled"
    schedule: tuple[WindowConfig, ...] = key(
        ListOf(each=Nested(cls=WindowConfig), empty=False),
        doc="windows; the first that holds now decides",
    )
    fallback: "AutoscalingConfig | None" = key(
        _AUTOSCALING, default=None, doc="the strategy within the bounds"
    )


@block()
class PredictiveConfig:
    """Follows where utilization is going."""

    type: ClassVar[str] = "predictive"
    lookback_window: int = key(
        Integer(least=2, most=100_000), default=10, doc="how many samples to look back on"
    )
    growth_factor: float = key(
        Real(least=0.01, most=100), default=1.2, doc="how far to follow the trend"
    )
    fallback: "AutoscalingConfig | None" = key(
        _AUTOSCALING, default=None, doc="the strategy while there is too little to predict from"
    )


@block()
class CompositeConfig:
    """Asks several strategies and combines what they say."""

    type: ClassVar[str] = "composite"
    mode: Mode = key(
        Choice(options=Mode), default=Mode.MAX, doc="which of the answers counts, or their mean"
    )
    autoscalers: "tuple[AutoscalingConfig, ...]" = key(
        ListOf(each=_AUTOSCALING, empty=False), doc="the strategies to ask"
    )


AutoscalingConfig: TypeAlias = (
    ReactiveConfig | QueueConfig | ScheduledConfig | PredictiveConfig | CompositeConfig
)

AUTOSCALING_TYPES: Mapping[str, type] = {
    cls.type: cls
    for cls in (ReactiveConfig, QueueConfig, ScheduledConfig, PredictiveConfig, CompositeConfig)
}

AUTOSCALING = _AUTOSCALING


def windows(config: AutoscalingConfig | None) -> Iterator[WindowConfig]:
    """Yield every window anywhere in a tree of strategies."""
    match config:
        case ScheduledConfig(schedule=schedule, fallback=fallback):
            yield from schedule
            yield from windows(fallback)
        case PredictiveConfig(fallback=fallback):
            yield from windows(fallback)
        case CompositeConfig(autoscalers=autoscalers):
            for each in autoscalers:
                yield from windows(each)
