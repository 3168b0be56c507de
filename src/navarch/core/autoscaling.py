"""Autoscaling: what was asked about how a pool's size follows its load."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeAlias

from navarch.core.schedule import Window


class Mode(StrEnum):
    """How several opinions become one."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveSettings:
    """Follows GPU utilisation, one node at a time."""

    scale_up_at: float = 80.0
    """In percent; above it the pool grows."""
    scale_down_at: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Follows the number of jobs that wait or run."""

    jobs_per_node: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSettings:
    """Follows the clock, and within the hour's bounds another strategy."""

    windows: tuple[Window, ...]
    time_zone: str = "UTC"
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveSettings:
    """Follows where the load is going, and where it went at this hour before."""

    lookback_window: int = 10
    """How many looks make a trend."""
    growth_factor: float = 1.2
    """How far to follow the trend, in lookback windows."""
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeSettings:
    """Asks several strategies and combines what they say."""

    members: "tuple[Autoscaling, ...]"
    mode: Mode = Mode.MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAwareSettings:
    """Follows utilisation in the hours that pay, and is small outside them."""

    peak_start: int = 9
    peak_end: int = 18
    """At or below `peak_start`, on the next day."""
    scale_up_at: float = 80.0
    off_peak_nodes: int = 0
    time_zone: str = "UTC"


Settings: TypeAlias = (
    ReactiveSettings
    | QueueSettings
    | ScheduledSettings
    | PredictiveSettings
    | CompositeSettings
    | CostAwareSettings
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """One strategy and its settings: exactly one of the fields is given.

    A field for each, rather than a union, because that is how JSON and protobuf say it.
    """

    reactive: ReactiveSettings | None = None
    queue: QueueSettings | None = None
    scheduled: ScheduledSettings | None = None
    predictive: PredictiveSettings | None = None
    composite: CompositeSettings | None = None
    cost_aware: CostAwareSettings | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the strategies that are given."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not None)

    @property
    def settings(self) -> Settings:
        """The settings of the strategy."""
        given = self.given
        assert len(given) == 1, f"one strategy, not {given}"
        found: Settings = getattr(self, given[0])
        return found
