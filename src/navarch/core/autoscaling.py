"""Autoscaling: the configured way in which a pool's size follows its load."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeAlias

from navarch.core.schedule import Window


class Mode(StrEnum):
    """The way in which several recommendations become one."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveSettings:
    """Settings of the strategy that follows GPU utilisation, one node at a time."""

    scale_up_at: float = 80.0
    """In percent; the pool grows above it."""
    scale_down_at: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of the strategy that follows the number of waiting and running jobs."""

    jobs_per_node: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSettings:
    """Settings of the strategy that bounds a pool by hours; `fallback` decides within them."""

    windows: tuple[Window, ...]
    time_zone: str = "UTC"
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveSettings:
    """Settings of the strategy that follows the trend and the load at this hour on earlier days."""

    lookback_window: int = 10
    """The number of samples that make a trend."""
    growth_factor: float = 1.2
    """How far to follow the trend, in lookback windows."""
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeSettings:
    """Settings of the strategy that combines the recommendations of several others."""

    members: "tuple[Autoscaling, ...]"
    mode: Mode = Mode.MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAwareSettings:
    """Settings of the strategy that follows utilisation in peak hours and is small outside them."""

    peak_start: int = 9
    peak_end: int = 18
    """An hour at or below `peak_start` is on the next day."""
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

    Each strategy has a field, rather than a place in a union, as in JSON and protobuf.
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
