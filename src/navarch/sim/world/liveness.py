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


class ComputedLiveness(TelemetryTable):
    """The product's telemetry table, in which suspended agents send their heartbeats.

    An agent is suspended while its heartbeats would change nothing. It cannot become overdue then,
    so its time is infinite; when it resumes, the time is that of its last scheduled heartbeat.
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
        super().__init__(clock, timeout=timeout, nodes=nodes)
        self._started_at = clock.now()
        self._suspended = suspended
        self._load = load
        self._before_suspension_s: dict[NodeId, float] = {}
        self._new: dict[NodeId, datetime] = {}
        """Nodes that were first received at this moment, and when each would be overdue."""
        for node in suspended:
            self._beats_s[self._row(node)] = np.inf

    def suspend(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Take the heartbeats of `node` as received until it resumes."""
        self._suspended[node] = schedule
        self._new.pop(node, None)
        row = self._rows.get(node)
        if row is None:
            return  # The node is gone, and its machine still runs.
        self._before_suspension_s[node] = float(self._beats_s[row])
        self._beats_s[row] = np.inf

    def resume(self, node: NodeId, schedule: HeartbeatSchedule) -> None:
        """Record the last heartbeat of `node`, which sends heartbeats one by one from now on."""
        del self._suspended[node]
        last_s = self._before_suspension_s.pop(node, 0.0)
        row = self._rows.get(node)
        if row is not None:
            # A heartbeat that was lost and retried was received later than scheduled.
            last_s = self._beats_s[row] = max(last_s, self._last_beat(schedule).timestamp())
            # A suspended node cannot become overdue, so its deadline was not announced yet.
            self._notify(self._overdue_at(last_s))

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
