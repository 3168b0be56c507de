"""Follows GPU utilization, one node at a time."""

from dataclasses import dataclass, field

from navarch.core.autoscaling import ReactiveSettings
from navarch.ports.autoscaler import PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactive:
    """Grows by a node or a gang above one threshold, shrinks by one below another.

    Starting nodes count as if they already shared the load, so that a slow boot does not trigger
    another purchase in every round.
    """

    settings: ReactiveSettings = field(default_factory=ReactiveSettings)
    name: str = "reactive"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size for the current utilization."""
        current, used = state.current_nodes, state.metrics.utilization
        up, down = self.settings.scale_up_at, self.settings.scale_down_at
        healthy, starting = state.healthy_nodes, state.starting_nodes
        # Unhealthy nodes may leave fewer usable nodes than the minimum.
        if healthy + starting < min(state.min_nodes, current) and current < state.max_nodes:
            reason = f"healthy nodes below minimum: {healthy} < {state.min_nodes}"
            return Recommendation(target_nodes=current + state.step, reason=reason)
        if current < state.min_nodes:
            reason = f"below minimum: {current} < {state.min_nodes}"
            return Recommendation(target_nodes=state.min_nodes, reason=reason)
        if current == 0 and state.metrics.pending_jobs > 0:
            reason = f"{state.metrics.pending_jobs} pending jobs and no node"
            return Recommendation(target_nodes=1, reason=reason)
        if used > up:
            serving = max(healthy, 1)
            if used * serving / (serving + starting) <= up:
                reason = f"utilization {used:.1f}%, {starting} nodes on their way"
                return Recommendation(target_nodes=current, reason=reason)
            reason = f"utilization {used:.1f}% > {up:g}% threshold"
            return Recommendation(
                target_nodes=min(current + state.step, state.max_nodes), reason=reason
            )
        if used < down and state.metrics.pending_jobs == 0:
            reason = f"utilization {used:.1f}% < {down:g}% threshold"
            return Recommendation(
                target_nodes=max(current - state.step, state.min_nodes), reason=reason
            )
        return Recommendation(target_nodes=current, reason="no scaling needed")
