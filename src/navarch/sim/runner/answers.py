"""Reply times of heartbeats."""

from array import array
from dataclasses import dataclass, field

from navarch.core.ids import NodeId
from navarch.sim.figures.durations import DurationStats, duration_stats


@dataclass(slots=True)
class ReplyTimes:
    """The reply times of all heartbeats, and the longest gap between replies to one node."""

    silence_max_s: float = 0.0
    """The longest time between two replies to one node."""
    _took_s: "array[float]" = field(default_factory=lambda: array("d"))
    _last: dict[NodeId, float] = field(default_factory=dict)

    def replied(self, node: NodeId, *, sent: float, answered: float) -> None:
        """Record a reply; both times are from the same clock."""
        self._took_s.append(answered - sent)
        before = self._last.get(node)
        if before is not None:
            self.silence_max_s = max(self.silence_max_s, answered - before)
        self._last[node] = answered

    def stats(self) -> DurationStats:
        """Return the reply times."""
        return duration_stats(self._took_s)
