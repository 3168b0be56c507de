"""How busy single nodes were lately: what a shrinking pool may take, and what not."""

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.ids import NodeId


class Readings(Protocol):
    """The last readings of nodes."""

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never reported."""
        ...


class Usage:
    """The peaks of each node of a pool since some time."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._looks: dict[NodeId, deque[tuple[datetime, float]]] = {}

    def note(self, nodes: Sequence[NodeId], now: datetime, *, keep: timedelta) -> None:
        """Look at `nodes`, which are all of a pool's, and forget what is older than `keep`."""
        oldest = now - keep
        for node, used in zip(nodes, self._readings.utilization(nodes), strict=True):
            if used is None:
                continue
            looks = self._looks.get(node)
            if looks is None:
                looks = self._looks[node] = deque()
            looks.append((now, used))
            # One look from before stays, as proof that the node was watched all the time.
            while len(looks) > 1 and looks[1][0] <= oldest:
                looks.popleft()

    def peaks(self, nodes: Sequence[NodeId], since: datetime) -> Mapping[NodeId, float]:
        """Return the highest use of the nodes that have been watched since then."""
        return {
            node: max(used for _, used in looks)
            for node in nodes
            if (looks := self._looks.get(node)) and looks[0][0] <= since
        }

    def forget_all_but(self, known: Mapping[NodeId, object]) -> None:
        """Drop nodes that are gone."""
        for node in [node for node in self._looks if node not in known]:
            del self._looks[node]
