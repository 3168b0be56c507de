"""How soon a server answers heartbeats."""

from array import array
from dataclasses import dataclass, field

from navarch.core.ids import NodeId
from navarch.sim.figures.durations import DurationStats, duration_stats


@dataclass(slots=True)
class ReplyTimes:
    """Every answer to a heartbeat: how long it took, and how long its node had had none before."""

    silence_max_s: float = 0.0
    """The longest time between two replies to one node."""
    _took_s: "array[float]" = field(default_factory=lambda: array("d"))
    _last: dict[NodeId, float] = field(default_factory=dict)

    def heard(self, node: NodeId, *, sent: float, answered: float) -> None:
        """Note an answer, both moments by one clock."""
        self._took_s.append(answered - sent)
        before = self._last.get(node)
        if before is not None:
            self.silence_max_s = max(self.silence_max_s, answered - before)
        self._last[node] = answered

    def stats(self) -> DurationStats:
        """Return how long answers took."""
        return duration_stats(self._took_s)
