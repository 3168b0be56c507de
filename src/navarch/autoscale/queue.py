"""Follows the number of pending and running jobs."""

from dataclasses import dataclass, field

from navarch.core.autoscaling import QueueSettings
from navarch.ports.autoscaler import PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Keeps one node for every `jobs_per_node` jobs."""

    settings: QueueSettings = field(default_factory=QueueSettings)
    name: str = "queue"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size that fits the queue."""
        each = self.settings.jobs_per_node
        # A source may report only pending jobs, which are part of the queue depth.
        depth = max(state.metrics.queue_depth, state.metrics.pending_jobs)
        needed = -(-depth // each)
        return Recommendation(
            target_nodes=min(max(needed, state.min_nodes), state.max_nodes),
            reason=f"queue depth {depth} requires {needed} nodes ({each} jobs/node)",
        )
