"""Heartbeats that are computed on request, instead of being sent one by one."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from math import floor

import numpy as np

from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.sim.kernel.loop import EPOCH
from navarch.stores.telemetry import TelemetryTable

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

JITTER = 0.05
"""How early or late a heartbeat may be, as a share of the interval."""


@dataclass(slots=True)
class HeartbeatSchedule:
    """The heartbeats of one agent since its start, numbered from zero."""

    key: int
    started_s: float
    interval_s: float

    @staticmethod
    def of(name: str, *, started_s: float, interval_s: float) -> "HeartbeatSchedule":
        """Return the schedule of the agent of that name."""
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
        return HeartbeatSchedule(key, started_s, interval_s)

    def starts_at(self, beat: int) -> float:
        """Return the time of a heartbeat; the first is sent at the start."""
        if beat == 0:
            return self.started_s
        early = JITTER * (2 * self._chance(beat) - 1)
        return self.started_s + (beat + early) * self.interval_s

    def next_start(self, now_s: float, *, after: int = -1) -> tuple[int, float]:
        """Return the number and the time of the first heartbeat later than now.

        `after` is the number of a heartbeat that is not later.
        """
        beat = max(self._first_not_before(now_s), after + 1)
        while (starts_s := self.starts_at(beat)) <= now_s:
            beat += 1
        return beat, starts_s

    def last_by(self, now_s: float) -> float:
        """Return the time of the last heartbeat until now."""
        return self.starts_at(self.next_start(now_s)[0] - 1)

    def begins_span(self, beat: int, starts_s: float, span_s: float) -> bool:
        """Return whether a heartbeat is the first in one of the equal spans since the start."""
        if beat == 0:
            return True
        before = (self.starts_at(beat - 1) - self.started_s) // span_s
        return (starts_s - self.started_s) // span_s > before

    def _first_not_before(self, now_s: float) -> int:
        """Return a number before which every heartbeat has been sent: nearly the next one's.

        The tolerance absorbs rounding in either direction.
        """
        return max(floor((now_s - self.started_s) / self.interval_s - JITTER - 1e-6) + 1, 0)

    def _chance(self, beat: int) -> float:
        """Return a number from 0 up to 1 that only the key and `beat` decide (splitmix64)."""
        mixed = (self.key + _GOLDEN * (beat * 64 + 1)) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return float((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)


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
