"""The load of pools, lately and on earlier days, kept across restarts if possible."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import msgspec

from navarch.core.ids import PoolName
from navarch.ports.autoscaler import Load

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
