"""Follows the trend of the load, and the load at the same hour of earlier days."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.core.autoscaling import PredictiveSettings
from navarch.ports.autoscaler import Autoscaler, Load, PoolState, Recommendation

DAY = timedelta(days=1)
WEEK_DAYS = 7
QUARTER = timedelta(minutes=15)


def expected_peak(history: Sequence[Load], since: datetime, until: datetime) -> float | None:
    """Return the most busy nodes to expect in a period; None without data of earlier days."""
    quarters = int((until - since) / QUARTER) + 1
    known = [expected_load(history, since + number * QUARTER) for number in range(quarters)]
    return max((load for load in known if load is not None), default=None)


def expected_load(history: Sequence[Load], at: datetime) -> float | None:
    """Return the busy nodes to expect `at`; None without data of earlier days.

    The same day of last week predicts best, because weekends differ from weekdays. In the first
    week the mean of the earlier days is used.
    """
    loads = [_load_at(history, at - days * DAY) for days in range(1, WEEK_DAYS + 1)]
    if loads[-1] is not None:
        return loads[-1]
    known = [load for load in loads if load is not None]
    return sum(known) / len(known) if known else None


def _load_at(history: Sequence[Load], at: datetime) -> float | None:
    """Return the load in the quarter of an hour that contains `at`."""
    begins = at - QUARTER
    place = bisect_left(history, begins, key=lambda load: load.at)
    while place < len(history) and history[place].at <= at:
        if history[place].at > begins:
            return history[place].busy_nodes
        place += 1
    return None


GROW_ABOVE = 80.0
AIM_FOR = 70.0
SHRINK_BELOW = 50.0
"""The thresholds and the target utilization in percent. They are far apart, so that the next
prediction does not undo the last change."""

AHEAD = timedelta(minutes=45)
"""How far ahead the load of earlier days is read. A machine that is bought now serves within 15
minutes; and in a sudden rush a pool measures at most its own size until it has grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """Sizes the pool for the expected load: the higher of the trend and of earlier days.

    Between the two thresholds, and while there is too little data, `fallback` decides. The pool
    shrinks only if the current load, the trend and earlier days all need fewer nodes.
    """

    settings: PredictiveSettings = field(default_factory=PredictiveSettings)
    fallback: Autoscaler | None = None
    name: str = "predictive"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size for the predicted load."""
        length = self.settings.lookback_window
        history = state.metrics.utilization_history
        # The load of earlier days at this hour, as utilization of the current nodes.
        expected = expected_peak(state.metrics.load_history, state.now, state.now + AHEAD)
        season = None if expected is None else 100.0 * expected / _measured(state)
        if len(history) < length and season is None:
            return self._fall_back(state, "insufficient history")
        trend = _trend(history[-length:]) if len(history) >= length else 0.0
        rising = max(state.metrics.utilization + trend * self.settings.growth_factor, 0.0)
        predicted = max(rising, season or 0.0)
        words = f"predicted utilization {predicted:.1f}% (trend: {trend:.1f}"
        words += ")" if season is None else f", this hour before: {season:.1f}%)"
        if predicted > GROW_ABOVE:
            target = max(round(_measured(state) * predicted / AIM_FOR), state.current_nodes)
            return Recommendation(target_nodes=min(target, state.max_nodes), reason=words)
        needed = max(predicted, state.metrics.utilization)
        if needed < SHRINK_BELOW and not state.metrics.pending_jobs and len(history) >= length:
            target = min(math.ceil(_measured(state) * needed / AIM_FOR), state.current_nodes)
            if target < state.current_nodes:
                return Recommendation(target_nodes=max(target, state.min_nodes), reason=words)
        return self._fall_back(state, f"prediction within thresholds: {words}")

    def _fall_back(self, state: PoolState, why: str) -> Recommendation:
        if self.fallback is None:
            return Recommendation(target_nodes=state.current_nodes, reason=why)
        advice = self.fallback.recommend(state)
        reason = f"{why}; {self.fallback.name}: {advice.reason}"
        return Recommendation(target_nodes=advice.target_nodes, reason=reason)


def _measured(state: PoolState) -> int:
    """Return how many nodes the utilization is an average of; at least one."""
    return max(state.healthy_nodes or state.current_nodes, 1)


def _trend(samples: Sequence[float]) -> float:
    """Return the rise over `samples` by least squares, which one outlier does not invert."""
    count = len(samples)
    middle, mean = (count - 1) / 2, sum(samples) / count
    spread = sum((i - middle) ** 2 for i in range(count))
    if not spread:
        return 0.0
    slope = sum((i - middle) * (value - mean) for i, value in enumerate(samples)) / spread
    return slope * (count - 1)
