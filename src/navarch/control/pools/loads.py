"""The load of pools, lately and on earlier days, kept across restarts if possible."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Series:
    """The samples of one pool, in the order of time."""

    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_MAX))
    looked_at: float = 0.0
    quarters: deque[Load] = field(default_factory=lambda: deque(maxlen=QUARTERS_MAX))
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
        series.recent.append(utilization)
        quarter = int(seconds // QUARTER_S)
        if quarter != series.quarter:
            _close(series)
            series.quarter = quarter
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
        series = self._series.get(pool)
        return tuple(series.quarters) if series else ()

    def forget_all_but(self, pools: Collection[PoolName]) -> None:
        """Drop pools that are gone, also restored ones that no longer exist."""
        for pool in [pool for pool in self._series if pool not in pools]:
            del self._series[pool]

    def dump(self) -> bytes:
        """Return everything as it is now, for `restore`."""
        saved = {
            name: _Saved(
                recent=list(series.recent),
                looked_at=series.looked_at,
                starts=[load.at.timestamp() for load in series.quarters],
                busy=[round(load.busy_nodes, 3) for load in series.quarters],
                quarter=series.quarter,
                busy_sum=series.busy_sum,
                looks=series.looks,
            )
            for name, series in self._series.items()
        }
        return msgspec.json.encode(saved)

    def restore(self, dumped: bytes) -> bool:
        """Restore a dump; return whether it could be read."""
        try:
            saved = msgspec.json.decode(dumped, type=dict[str, _Saved])
        except msgspec.MsgspecError:
            # Predictions begin anew; sizes and strategies are kept elsewhere.
            return False
        for name, each in saved.items():
            series = self._series[PoolName(name)] = _Series(
                looked_at=each.looked_at,
                quarter=each.quarter,
                busy_sum=each.busy_sum,
                looks=each.looks,
            )
            series.recent.extend(each.recent)
            series.quarters.extend(
                Load(at=datetime.fromtimestamp(at, UTC), busy_nodes=busy)
                for at, busy in zip(each.starts, each.busy, strict=False)
            )
        return True


def _close(series: _Series) -> None:
    if series.looks:
        begins = datetime.fromtimestamp(series.quarter * QUARTER_S, UTC)
        series.quarters.append(Load(at=begins, busy_nodes=series.busy_sum / series.looks))
    series.busy_sum, series.looks = 0.0, 0


class _Saved(msgspec.Struct):
    recent: list[float]
    looked_at: float
    starts: list[float]
    busy: list[float]
    quarter: int
    busy_sum: float
    looks: int
