"""Several sources of metrics as one."""

from collections.abc import Sequence

from navarch.core.ids import PoolName
from navarch.ports.autoscaler import MetricsSource, PoolMetrics


class Merged:
    """Takes from each source what it knows: a value of zero is no news.

    One that fails fails the whole: work that only it knows of must not look like none.
    """

    def __init__(self, sources: Sequence[MetricsSource]) -> None:
        self._sources = sources

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the first value that is not zero, for each metric on its own."""
        known = [await source.pool_metrics(pool) for source in self._sources]
        return PoolMetrics(
            utilization=next((m.utilization for m in known if m.utilization), 0.0),
            pending_jobs=next((m.pending_jobs for m in known if m.pending_jobs), 0),
            queue_depth=next((m.queue_depth for m in known if m.queue_depth), 0),
            nodes_needed=max((m.nodes_needed for m in known), default=0),
        )
