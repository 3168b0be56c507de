"""The ports for the size of a pool: autoscalers and metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from navarch.core.ids import PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a pool at some time."""

    at: datetime
    busy_nodes: float
    """Utilisation times nodes: the number of fully used nodes that would carry the load. Unlike a
    percentage it does not depend on the size of the pool."""


class PoolMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a pool."""

    utilization: float = 0.0
    """Average over its GPUs, in percent."""
    pending_jobs: int = 0
    queue_depth: int = 0
    """Queued and running jobs."""
    nodes_needed: int = 0
    """The number of nodes that running work and queued requests need together, if known. The
    pool never becomes smaller than that, regardless of the autoscaler."""
    utilization_history: Sequence[float] = ()
    """Earlier values of `utilization`, oldest first, one per evaluation."""
    load_history: Sequence[Load] = ()
    """Averages over quarters of an hour, oldest first, for as many days as are stored."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """The input of an autoscaler. `now` is data, so that an autoscaler reads no clock."""

    pool: PoolName
    now: datetime
    current_nodes: int
    """The present size, whatever the state of the nodes."""
    healthy_nodes: int
    starting_nodes: int = 0
    """Requested or booting nodes, and faulty nodes that are about to be replaced."""
    min_nodes: int
    """The bounds that apply now."""
    max_nodes: int
    step: int = 1
    """The number of nodes that are added or removed together. Other sizes are rounded up."""
    metrics: PoolMetrics = msgspec.field(default_factory=PoolMetrics)


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """A size, and the sentence that explains it."""

    target_nodes: int
    reason: str


class Autoscaler(Protocol):
    """A pure function from the state of a pool to its size, with settings.

    The caller applies bounds, cooldown and the delay before shrinking. An autoscaler that raises,
    or returns something invalid, is reported in the journal and changes nothing.

    ```python
    class OfficeHours:
        name = "office-hours"

        def recommend(self, state: PoolState) -> Recommendation:
            busy = 8 <= state.now.hour < 18
            return Recommendation(
                target_nodes=state.max_nodes if busy else state.min_nodes,
                reason="office hours" if busy else "outside office hours",
            )
    ```
    """

    @property
    def name(self) -> str:
        """The name used in reasons."""

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size that the pool should have now."""


class MetricsSource(Protocol):
    """A source of metrics of pools."""

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the present metrics of `pool`. The caller keeps the history.

        Raises MetricsError if they are not available: missing metrics are not a load of zero.
        """
