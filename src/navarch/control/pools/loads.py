"""The load of pools, lately and on earlier days, kept across restarts if possible."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from navarch.core.ids import NodeId, PoolName
from navarch.ports.autoscaler import Load


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


RECENT_MAX = 120
"""The number of earlier samples in an autoscaler's input: an hour at the usual interval."""

GAP = timedelta(minutes=5)
"""Samples this far apart do not belong to one trend."""

QUARTER_S = 15 * 60

QUARTERS_MAX = 8 * 96
"""A week and a day: the same hour last week is always among them."""


class _Series(msgspec.Struct):
    """The samples of one pool, in the order of time, as they are saved."""

    recent: list[float] = []
    looked_at: float = 0.0
    starts: list[float] = []
    """When past quarters of an hour began."""
    busy: list[float] = []
    """The average of busy nodes in each of them."""
    quarter: int = 0
    """The number of the present quarter of an hour since 1970, and the samples in it."""
    busy_sum: float = 0.0
    looks: int = 0


class Loads:
    """One series of samples per pool; a sample covers all its nodes at one time."""

    def __init__(self) -> None:
        self._series: dict[PoolName, _Series] = {}

    def note(self, pool: PoolName, at: datetime, *, utilization: float, nodes: int) -> None:
        """Record a sample of `pool`: the utilization of its `nodes`, in percent."""
        series = self._series.setdefault(pool, _Series())
        seconds = at.timestamp()
        if seconds - series.looked_at > GAP.total_seconds():
            series.recent.clear()
        series.looked_at = seconds
        series.recent = [*series.recent, utilization][-RECENT_MAX:]
        quarter = int(seconds // QUARTER_S)
        if quarter != series.quarter:
            if series.looks:
                began, average = series.quarter * QUARTER_S, series.busy_sum / series.looks
                series.starts = [*series.starts, float(began)][-QUARTERS_MAX:]
                series.busy = [*series.busy, average][-QUARTERS_MAX:]
            series.quarter, series.busy_sum, series.looks = quarter, 0.0, 0
        series.busy_sum += utilization / 100 * nodes
        series.looks += 1

    def recent(self, pool: PoolName, now: datetime) -> tuple[float, ...]:
        """Return the utilization of earlier samples, oldest first, back to the last gap."""
        series = self._series.get(pool)
        if series is None or now.timestamp() - series.looked_at > GAP.total_seconds():
            return ()
        return tuple(series.recent)

    def quarters(self, pool: PoolName) -> tuple[Load, ...]:
        """Return the averages over past quarters of an hour, oldest first."""
        series = self._series.get(pool, _Series())
        return tuple(
            Load(at=datetime.fromtimestamp(start, UTC), busy_nodes=busy)
            for start, busy in zip(series.starts, series.busy, strict=False)
        )

    def forget_all_but(self, pools: Collection[PoolName]) -> None:
        """Drop pools that are gone, also restored ones that no longer exist."""
        for pool in [pool for pool in self._series if pool not in pools]:
            del self._series[pool]

    def dump(self) -> bytes:
        """Return everything as it is now, for `restore`."""
        return msgspec.json.encode(self._series)

    def restore(self, dumped: bytes) -> bool:
        """Restore a dump; return whether it could be read."""
        try:
            self._series |= msgspec.json.decode(dumped, type=dict[PoolName, _Series])
        except msgspec.MsgspecError:
            # Predictions begin anew; sizes and strategies are kept elsewhere.
            return False
        return True
