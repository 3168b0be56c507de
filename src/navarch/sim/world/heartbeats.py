"""When an agent beats: a function of its name and the number of the beat, open at any page.

Beats that change nothing need not be carried out one by one, if it can be computed at any
time which was the last. So the times come from a counter and not from a stream of chance.
"""

from dataclasses import dataclass
from hashlib import blake2b
from math import floor

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

JITTER = 0.05
"""How far a beat may be from its place, as a share of the interval."""

_LATENCY_MIN_S, _LATENCY_MAX_S = 0.001, 0.05


@dataclass(slots=True)
class HeartbeatSchedule:
    """The beats of one agent since it was started, numbered from zero."""

    key: int
    started_s: float
    interval_s: float
    instant: bool = False
    """Whether messages take no time at all."""

    @staticmethod
    def of(
        name: str, *, started_s: float, interval_s: float, instant: bool = False
    ) -> "HeartbeatSchedule":
        """Return the pulse of the agent of that name."""
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
        return HeartbeatSchedule(key, started_s, interval_s, instant)

    def starts_at(self, beat: int) -> float:
        """Return when the agent sets out on `beat`: at once for the first."""
        if beat == 0:
            return self.started_s
        early = JITTER * (2 * self._chance(beat, 0) - 1)
        return self.started_s + (beat + early) * self.interval_s

    def arrives_at(self, beat: int) -> float:
        """Return when the first message of `beat` reaches the control plane."""
        return self.starts_at(beat) + self.latency_s(beat, 0)

    def latency_s(self, beat: int, message: int) -> float:
        """Return how long one message of `beat` is on its way."""
        if self.instant:
            return 0.0
        span = _LATENCY_MAX_S - _LATENCY_MIN_S
        return _LATENCY_MIN_S + span * self._chance(beat, message + 1)

    def next_start(self, now_s: float, *, after: int = -1) -> tuple[int, float]:
        """Return the first beat that begins later than now, and when it does.

        `after` is one that is known to have begun.
        """
        beat = max(self._first_not_before(now_s), after + 1)
        while (starts_s := self.starts_at(beat)) <= now_s:
            beat += 1
        return beat, starts_s

    def first_arrival_after(self, now_s: float) -> int:
        """Return the first beat that the control plane has not heard by now."""
        beat = self._first_not_before(now_s - _LATENCY_MAX_S)
        # Mostly it is too soon for that one, however early it may be.
        while self.started_s + (beat - JITTER) * self.interval_s <= now_s:
            if self.arrives_at(beat) > now_s:
                break
            beat += 1
        return beat

    def _first_not_before(self, now_s: float) -> int:
        """Return a beat before which all have begun by now, however late: nearly the first after.

        The last bit of a number is left out of it, whichever way that was rounded.
        """
        return max(floor((now_s - self.started_s) / self.interval_s - JITTER - 1e-6) + 1, 0)

    def begins_span(self, beat: int, starts_s: float, span_s: float) -> bool:
        """Return whether `beat`, which starts then, is the first in one of the spans since zero."""
        if beat == 0:
            return True
        before = (self.starts_at(beat - 1) - self.started_s) // span_s
        return (starts_s - self.started_s) // span_s > before

    def _chance(self, beat: int, draw: int) -> float:
        """Return a number below one that only these three numbers decide (splitmix64)."""
        mixed = (self.key + _GOLDEN * (beat * 64 + draw + 1)) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return float((mixed ^ (mixed >> 31)) >> 11) / (1 << 53)
