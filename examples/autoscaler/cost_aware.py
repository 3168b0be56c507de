"""An autoscaler of your own: scales down aggressively outside business hours.

    python examples/autoscaler/cost_aware.py

prints what it would do over a day. To use it, hand it to the control plane for a pool:

    ControlPlane(
        data_dir=Path("state"),
        config=load_config("navarch.yaml"),
        autoscalers={"training": CostAware()},
    )

The same strategy is built in as `type: cost-aware`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from navarch.core.ids import PoolName
from navarch.ports.autoscaler import PoolMetrics, PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAware:
    """One node up or down at a time in the hours that pay; a few nodes outside them.

    It neither clamps to the pool's bounds nor waits out a cooldown: both are done for it,
    for every autoscaler in the same way. It reads no clock: the time is in the state.
    """

    peak_start: int = 8
    peak_end: int = 20
    peak_threshold: float = 75.0
    off_peak_nodes: int = 1
    time_zone: str = "America/New_York"
    name: str = "my-cost-aware"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the size this pool should have now."""
        hour = state.now.astimezone(ZoneInfo(self.time_zone)).hour
        if not self.peak_start <= hour < self.peak_end:
            return Recommendation(
                target_nodes=self.off_peak_nodes, reason="off-peak hours, scaling to minimum"
            )
        used = state.metrics.utilization
        if used > self.peak_threshold:
            return Recommendation(
                target_nodes=state.current_nodes + 1,
                reason=f"utilization {used:.1f}% exceeds threshold",
            )
        if used < self.peak_threshold / 2:
            return Recommendation(
                target_nodes=max(state.current_nodes - 1, 0),
                reason=f"utilization {used:.1f}% is below half the threshold",
            )
        return Recommendation(target_nodes=state.current_nodes, reason="no scaling needed")


def main() -> None:
    """Print a recommendation for every third hour of a day."""
    midnight = datetime(2026, 3, 2, tzinfo=UTC)
    for hour in range(0, 24, 3):
        state = PoolState(
            pool=PoolName("training"),
            now=midnight + timedelta(hours=hour),
            current_nodes=4,
            healthy_nodes=4,
            min_nodes=0,
            max_nodes=10,
            metrics=PoolMetrics(utilization=90.0 if 12 <= hour <= 18 else 20.0),
        )
        advice = CostAware().recommend(state)
        print(f"{hour:02}:00 UTC  4 -> {advice.target_nodes}  {advice.reason}")


if __name__ == "__main__":
    main()
