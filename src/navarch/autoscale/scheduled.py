"""Changes the bounds by the hour; another autoscaler sizes the pool within them."""

from dataclasses import dataclass

from navarch.core.records import evolve
from navarch.core.schedule import Schedule, Window
from navarch.ports.autoscaler import Autoscaler, PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Applies `fallback` within the bounds of the first window that covers the hour.

    Without a fallback it keeps the lower bound.
    """

    schedule: Schedule
    fallback: Autoscaler | None = None
    name: str = "scheduled"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the recommendation of the fallback, limited to the bounds of the hour."""
        window = self.schedule.window_at(state.now)
        if window is not None:
            state = _within(state, window)
        hour = "outside every window" if window is None else str(window)
        if self.fallback is None:
            return Recommendation(target_nodes=state.min_nodes, reason=f"{hour}: the fewest nodes")
        advice = self.fallback.recommend(state)
        return Recommendation(
            target_nodes=min(max(advice.target_nodes, state.min_nodes), state.max_nodes),
            reason=f"{hour}: {self.fallback.name}: {advice.reason}",
        )


def _within(state: PoolState, window: Window) -> PoolState:
    low = state.min_nodes if window.nodes_min is None else window.nodes_min
    high = state.max_nodes if window.nodes_max is None else window.nodes_max
    return evolve(state, min_nodes=min(low, high), max_nodes=high)
