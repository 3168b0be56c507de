"""Heartbeats that are computed when somebody asks, instead of being sent one by one."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import numpy as np

from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.sim.kernel.loop import EPOCH
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.stores.telemetry import TelemetryTable

AWAKE_MAX = 100
"""Of so many the first to be overdue is found one by one; a scan of all takes as long."""


class ComputedLiveness(TelemetryTable):
    """The product's columns, in which agents at rest are known to be beating.

    An agent rests while its beats would change nothing. It cannot fall silent then, so its
    time is infinite; once it is roused, the time is that of the last beat it was to make.
    The few that are awake are known by their rows, so that nobody need look for them among all.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        timeout: timedelta,
        nodes: Iterable[NodeId],
        suspended: dict[NodeId, HeartbeatSchedule],
        load: Callable[[NodeId], float] | None = None,
    ) -> None:
        self._awake: set[int] = set()
        super().__init__(clock, timeout=timeout, nodes=nodes)
        self._started_at = clock.now()
        self._suspended = suspended
        self._load = load
        self._heard_last: dict[NodeId, float] = {}
        self._new: dict[NodeId, datetime] = {}
        """Who has come in this moment, and when each would be overdue."""
        for node in suspended:
            row = self._row(node)
            self._heard[row] = np.inf
            self._awake.discard(row)

    def suspend(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Take it that `node` beats, until it rises."""
        self._suspended[node] = schedule
        self._new.pop(node, None)
        row = self._row(node)
        self._heard_last[node] = float(self._heard[row])
        self._heard[row] = np.inf
        self._awake.discard(row)

    def resume(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Note when `node`, whose beats count singly from now on, was last heard of."""
        del self._suspended[node]
        heard = self._heard_last.pop(node, 0.0)
        row = self._rows.get(node)
        if row is not None:
            # A beat that was lost and made again was heard later than its turn.
            heard = self._heard[row] = max(heard, self._last_beat(schedule).timestamp())
            self._awake.add(row)
            # While it was at rest it could not fall silent, so nobody looks for that yet.
            self._tell(self._overdue_at(heard))

    def overdue_from(self) -> datetime | None:
        """Return when the first node is overdue if nothing more is heard, or since when one is."""
        if len(self._awake) > AWAKE_MAX:
            return super().overdue_from()
        self._now_s()
        first_s = min(map(self._heard.item, self._awake), default=np.inf)
        return None if first_s == np.inf else self._overdue_at(first_s)

    def _new_row(self, name: NodeId | None) -> int:
        row = super()._new_row(name)
        if name is not None:
            self._awake.add(row)
        return row

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        row = self._rows.get(node)
        super().forget(node)
        if row is not None:
            self._awake.discard(row)

    def last_heard(self, node: NodeId) -> datetime | None:
        """Return when `node` was last heard of by this process."""
        schedule = self._suspended.get(node)
        return super().last_heard(node) if schedule is None else self._last_beat(schedule)

    def has_spoken(self, node: NodeId) -> bool:
        """Return whether `node` was heard of; one at rest would have been by now."""
        return node in self._suspended or super().has_spoken(node)

    def utilization(self, nodes: Sequence[NodeId]) -> list[float | None]:
        """Return how busy each node is; one at rest would have said so by now."""
        found = super().utilization(nodes)
        if self._load is not None:
            for place, node in enumerate(nodes):
                if node in self._suspended:
                    found[place] = self._load(node)
        return found

    def _welcome(self, node: NodeId, overdue_at: datetime) -> None:
        """Tell of one that was not known, unless it goes to rest within the moment, as most do."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._tell_of_the_new)
        self._new[node] = overdue_at

    def _tell_of_the_new(self) -> None:
        if self._new:
            self._tell(min(self._new.values()))
            self._new.clear()

    def _last_beat(self, schedule: HeartbeatSchedule) -> datetime:
        now_s = (self._clock.now() - EPOCH).total_seconds()
        heard = EPOCH + timedelta(seconds=schedule.last_by(now_s))
        return max(heard, self._started_at)
