"""Paces: how often an account may be asked, kept by everybody who asks."""

import asyncio
import bisect
from dataclasses import dataclass, field

from navarch.core.errors import TransientError
from navarch.ports.clock import Clock


@dataclass(slots=True)
class Pace:
    """Turns that are so many seconds apart. It knows moments; `turn` lets time pass."""

    interval_s: float
    patience_s: float
    what: str
    """What is paced, for the refusal."""
    _taken: list[float] = field(default_factory=list)
    """The moments of turns, the past ones as far back as they matter."""
    _closed_until: float = 0.0

    def earliest(self, moment_s: float) -> float:
        """Return the first moment from `moment_s` on that is far enough from every other turn."""
        free = max(moment_s, self._closed_until)
        for taken in self._taken:
            if taken - free >= self.interval_s:
                break
            if free - taken < self.interval_s:
                free = taken + self.interval_s
        return free

    def take(self, moment_s: float, now_s: float) -> None:
        """Keep a moment for somebody."""
        self._taken = [taken for taken in self._taken if taken > now_s - self.interval_s]
        bisect.insort(self._taken, moment_s)

    def give_back(self, moment_s: float) -> None:
        """Free a moment that nobody will use."""
        if moment_s in self._taken:
            self._taken.remove(moment_s)

    def hold(self, until_s: float) -> None:
        """Let nobody new through until then: the other side has said so."""
        self._closed_until = max(self._closed_until, until_s)


async def turn(clock: Clock, *paces: Pace) -> None:
    """Return when all `paces` allow a call, or raise TransientError if that is too far off.

    Whoever would have to wait too long is refused at once, before anything has happened: a
    caller with a time limit must not spend it standing in a queue, for then nobody could say
    whether its request was ever made.
    """
    now = clock.monotonic()
    mine = _common_moment(now, paces)
    slowest = max(paces, key=lambda pace: pace.interval_s)
    if mine - now > slowest.patience_s:
        raise TransientError(
            f"{slowest.what} are paced to one every {slowest.interval_s:g} s, and there is no "
            f"turn within {slowest.patience_s:g} s"
        )
    for pace in paces:
        pace.take(mine, now)
    try:
        if mine > now:
            await clock.sleep(mine - now)
    except asyncio.CancelledError:
        for pace in paces:
            pace.give_back(mine)
        raise


def _common_moment(now_s: float, paces: tuple[Pace, ...]) -> float:
    moment = now_s
    while True:
        later = max(pace.earliest(moment) for pace in paces)
        if later == moment:
            return moment
        moment = later
