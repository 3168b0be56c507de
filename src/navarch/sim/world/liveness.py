"""Heartbeats that are computed on request, instead of being sent one by one."""

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
"""Up to this number, the first overdue node is found one by one; a scan of all takes as long."""


class ComputedLiveness(TelemetryTable):
    """The product's telemetry table, in which suspended agents send their heartbeats.

    An agent is suspended while its heartbeats would change nothing. It cannot become overdue then,
    so its time is infinite; when it resumes, the time is that of its last scheduled heartbeat. The
    rows of the few agents that are awake are kept apart, so that no scan of all is needed.
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
        self._before_suspension_s: dict[NodeId, float] = {}
        self._new: dict[NodeId, datetime] = {}
        """Nodes that were first received at this moment, and when each would be overdue."""
        for node in suspended:
            row = self._row(node)
            self._beats_s[row] = np.inf
            self._awake.discard(row)

    def suspend(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Take the heartbeats of `node` as received until it resumes."""
        self._suspended[node] = schedule
        self._new.pop(node, None)
        row = self._rows.get(node)
        if row is None:
            return  # The node is gone, and its machine still runs.
        self._before_suspension_s[node] = float(self._beats_s[row])
        self._beats_s[row] = np.inf
        self._awake.discard(row)

    def resume(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Record the last heartbeat of `node`, which sends heartbeats one by one from now on."""
        del self._suspended[node]
        last_s = self._before_suspension_s.pop(node, 0.0)
        row = self._rows.get(node)
        if row is not None:
            # A heartbeat that was lost and retried was received later than scheduled.
            last_s = self._beats_s[row] = max(last_s, self._last_beat(schedule).timestamp())
            self._awake.add(row)
            # A suspended node cannot become overdue, so its deadline was not announced yet.
            self._notify(self._overdue_at(last_s))

    def overdue_from(self) -> datetime | None:
        """Return when the first node is overdue if nothing more arrives, or since when one is."""
        if len(self._awake) > AWAKE_MAX:
            return super().overdue_from()
        self._now_s()
        first_s = min(map(self._beats_s.item, self._awake), default=np.inf)
        return None if first_s == np.inf else self._overdue_at(first_s)

    def _new_row(self, name: NodeId) -> int:
        row = super()._new_row(name)
        self._awake.add(row)
        return row

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        row = self._rows.get(node)
        super().forget(node)
        if row is not None:
            self._awake.discard(row)

    def last_heartbeat(self, node: NodeId) -> datetime | None:
        """Return the time of the last heartbeat of `node` in this process."""
        schedule = self._suspended.get(node)
        return super().last_heartbeat(node) if schedule is None else self._last_beat(schedule)

    def has_reported(self, node: NodeId) -> bool:
        """Return whether `node` has sent a heartbeat; a suspended one has."""
        return node in self._suspended or super().has_reported(node)

    def utilization(self, nodes: Sequence[NodeId]) -> list[float | None]:
        """Return the utilization of each node; that of suspended nodes is computed."""
        found = super().utilization(nodes)
        if self._load is not None:
            for place, node in enumerate(nodes):
                if node in self._suspended:
                    found[place] = self._load(node)
        return found

    def _welcome(self, node: NodeId, overdue_at: datetime) -> None:
        """Announce a new node, unless it is suspended at this moment, as most are."""
        if not self._new:
            asyncio.get_running_loop().call_soon(self._announce_new)
        self._new[node] = overdue_at

    def _announce_new(self) -> None:
        if self._new:
            self._notify(min(self._new.values()))
            self._new.clear()

    def _last_beat(self, schedule: HeartbeatSchedule) -> datetime:
        now_s = (self._clock.now() - EPOCH).total_seconds()
        last = EPOCH + timedelta(seconds=schedule.last_by(now_s))
        return max(last, self._started_at)
