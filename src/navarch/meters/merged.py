"""Several sources of metrics as one."""

from collections.abc import Sequence

from navarch.core.ids import PoolName
from navarch.ports.autoscaler import MetricsSource, PoolMetrics


class Merged:
    """Takes each metric from the first source that has it; zero means that a source has none.

    If one source fails, the whole fails: unknown work must not look like no work.
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
