"""Follows utilization at peak hours and keeps a fixed number of nodes off peak."""

from dataclasses import dataclass, field

from navarch.core.autoscaling import CostAwareSettings
from navarch.core.schedule import Window, time_zone
from navarch.ports.autoscaler import PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAware:
    """Keeps `off_peak_nodes` off peak; at peak, grows or shrinks by one node or gang at a time."""

    settings: CostAwareSettings = field(default_factory=CostAwareSettings)
    name: str = "cost-aware"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size for the current hour and load."""
        settings = self.settings
        peak = Window(start=settings.peak_start, end=settings.peak_end)
        if not peak.holds(state.now.astimezone(time_zone(settings.time_zone))):
            return Recommendation(
                target_nodes=max(settings.off_peak_nodes, state.min_nodes),
                reason="off-peak hours, scaling to minimum",
            )
        current, used, up = state.current_nodes, state.metrics.utilization, settings.scale_up_at
        waiting = state.metrics.pending_jobs
        if (used > up or (waiting and not current)) and current < state.max_nodes:
            word = f"utilization {used:.1f}% exceeds threshold" if used > up else f"{waiting} wait"
            return Recommendation(target_nodes=current + state.step, reason=word)
        if used < up / 2 and not waiting and current > state.min_nodes:
            return Recommendation(
                target_nodes=current - state.step,
                reason=f"utilization {used:.1f}% is below half the threshold",
            )
        return Recommendation(target_nodes=current, reason="no scaling needed")
