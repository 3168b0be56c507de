"""Autoscalers without a memory: by load, by queue, by schedule, by cost, and combined."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from navarch.core.autoscaling import (
    CostAwareSettings,
    Mode,
    QueueSettings,
    ReactiveSettings,
    Schedule,
    Window,
    time_zone,
)
from navarch.core.records import evolve
from navarch.ports.autoscaler import Autoscaler, PoolState, Recommendation


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job or a request for machines: one or several equal parts that run together."""

    gpus: int
    """GPUs of each part."""
    parts: int = 1
    waiting: bool = False


def nodes_needed(work: Iterable[Work], gpus_per_node: int) -> int:
    """Return how many nodes hold all of `work`; a part larger than a node takes whole nodes.

    Uses best fit decreasing, which needs at most 11/9 of the optimal number of nodes.
    """
    assert gpus_per_node > 0, gpus_per_node
    parts = sorted((each.gpus for each in work for _ in range(each.parts)), reverse=True)
    nodes = 0
    free: dict[int, int] = {}
    for part in parts:
        if part <= 0:
            continue
        nodes += part // gpus_per_node
        rest = part % gpus_per_node
        if not rest:
            continue
        room = next((room for room in range(rest, gpus_per_node) if free.get(room)), None)
        if room is None:
            nodes += 1
            room = gpus_per_node
        else:
            free[room] -= 1
        free[room - rest] = free.get(room - rest, 0) + 1
    return nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """The largest, the smallest or the mean recommendation, with the reasons of all members.

    A member that fails is left out. While one fails the pool does not shrink: the failing member
    may be the one that sees the load.
    """

    members: Sequence[Autoscaler]
    mode: Mode = Mode.MAX
    name: str = "composite"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the combined recommendation."""
        targets: list[int] = []
        reasons: list[str] = []
        for member in self.members:
            try:
                advice = member.recommend(state)
                targets.append(_checked(advice.target_nodes))
                reasons.append(f"{member.name} {advice.target_nodes}: {advice.reason}")
            except Exception as error:  # noqa: BLE001 - a member may be an extension
                reasons.append(f"{member.name} failed: {error!r}")
        if not targets:
            raise ValueError(f"all autoscalers failed: [{'; '.join(reasons)}]")
        if self.mode is Mode.AVG:
            target = sum(targets) // len(targets)
        else:
            target = max(targets) if self.mode is Mode.MAX else min(targets)
        if len(targets) < len(self.members):
            target = max(target, state.current_nodes)
        word = f"{self.mode} of {len(self.members)} autoscalers"
        return Recommendation(target_nodes=target, reason=f"{word}: [{'; '.join(reasons)}]")


def _checked(nodes: object) -> int:
    if type(nodes) is not int or nodes < 0:
        raise ValueError(f"{nodes!r} is no number of nodes")
    return nodes
