"""Follows the number of jobs that wait or run."""

from dataclasses import dataclass, field

from navarch.core.autoscaling import QueueSettings
from navarch.ports.autoscaler import PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Keeps as many nodes as the jobs need, so many on each."""

    settings: QueueSettings = field(default_factory=QueueSettings)
    name: str = "queue"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size that fits the queue."""
        each = self.settings.jobs_per_node
        # A source may count only the jobs that wait; they are part of the queue all the same.
        depth = max(state.metrics.queue_depth, state.metrics.pending_jobs)
        needed = -(-depth // each)
        return Recommendation(
            target_nodes=min(max(needed, state.min_nodes), state.max_nodes),
            reason=f"queue depth {depth} requires {needed} nodes ({each} jobs/node)",
        )
