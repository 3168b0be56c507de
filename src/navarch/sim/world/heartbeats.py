"""The times of an agent's heartbeats, as a function of its name and the heartbeat's number.

Heartbeats that change nothing need not be sent one by one if the last one can be computed at any
time. So the times come from a counter-based generator and not from a stream of random numbers.
"""

from dataclasses import dataclass
from hashlib import blake2b
from math import floor

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
