"""How big a pool should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from navarch.core.ids import PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much a pool had to do at some time."""

    at: datetime
    busy_nodes: float
    """Utilisation times nodes: what it would take if every node were used to the full.
    Unlike a percentage it means the same whatever size the pool had."""


class PoolMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a pool is."""

    utilization: float = 0.0
    """Average over its GPUs, in percent."""
    pending_jobs: int = 0
    queue_depth: int = 0
    """Jobs that wait or run."""
    nodes_needed: int = 0
    """How many nodes the work that runs and the requests that wait need together, where
    that is known. The pool is not made smaller than that, whatever the autoscaler says."""
    utilization_history: Sequence[float] = ()
    """Earlier values of `utilization`, oldest first, one per look."""
    load_history: Sequence[Load] = ()
    """Averages over quarters of an hour, oldest first, for as many days as are remembered."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an autoscaler may know. `now` is data, so that it reads no clock."""

    pool: PoolName
    now: datetime
    current_nodes: int
    """How many it is meant to have now, in whatever state they are."""
    healthy_nodes: int
    starting_nodes: int = 0
    """Bought or asked for and not there yet, or broken and about to be replaced."""
    min_nodes: int
    """The bounds at this hour."""
    max_nodes: int
    step: int = 1
    """How many nodes come and go together. A size in between is rounded up."""
    metrics: PoolMetrics = msgspec.field(default_factory=PoolMetrics)


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A size, and the sentence that explains it."""

    target_nodes: int
    reason: str


class Autoscaler(Protocol):
    """A pure opinion with settings.

    Bounds, cooldown and patience before shrinking are applied by the caller, once. One that
    raises, or answers with nonsense, is reported in the journal and changes nothing.

    ```python
    class OfficeHours:
        name = "office-hours"

        def recommend(self, state: PoolState) -> Recommendation:
            busy = 8 <= state.now.hour < 18
            return Recommendation(
                target_nodes=state.max_nodes if busy else state.min_nodes,
                reason="office hours" if busy else "nobody is there",
            )
    ```
    """

    @property
    def name(self) -> str:
        """The name used in reasons."""
        ...

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size this pool should have now."""
        ...


class MetricsSource(Protocol):
    """Where a pool's metrics come from."""

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return how busy `pool` is now. The history is kept by the caller.

        Raises MetricsError if it cannot be known now: nothing known is not nothing to do.
        """
        ...
