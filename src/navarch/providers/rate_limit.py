"""Rate limits of a cloud account, shared by all of its callers."""

import asyncio
import bisect
from dataclasses import dataclass, field

from navarch.core.errors import TransientError
from navarch.ports.clock import Clock


@dataclass(slots=True)
class RateLimit:
    """Slots that are at least `interval_s` apart. This class computes; `acquire` waits."""

    interval_s: float
    wait_s_max: float
    what: str
    """The limited calls, for the error message."""
    _taken: list[float] = field(default_factory=list)
    """The times of reserved slots, with past ones for as long as they matter."""
    _closed_until: float = 0.0

    def earliest(self, moment_s: float) -> float:
        """Return the first time from `moment_s` on that is far enough from every reserved slot."""
        free = max(moment_s, self._closed_until)
        for taken in self._taken:
            if taken - free >= self.interval_s:
                break
            if free - taken < self.interval_s:
                free = taken + self.interval_s
        return free

    def take(self, moment_s: float, now_s: float) -> None:
        """Reserve the slot at `moment_s`."""
        self._taken = [taken for taken in self._taken if taken > now_s - self.interval_s]
        bisect.insort(self._taken, moment_s)

    def give_back(self, moment_s: float) -> None:
        """Release a reserved slot that will not be used."""
        if moment_s in self._taken:
            self._taken.remove(moment_s)

    def hold(self, until_s: float) -> None:
        """Reserve no new slots before `until_s`, as the server demanded."""
        self._closed_until = max(self._closed_until, until_s)


async def acquire(clock: Clock, *limits: RateLimit) -> None:
    """Wait until all `limits` allow a call; raise TransientError at once if that takes too long.

    A caller with a time limit must not spend it in a queue: if it timed out there, it could not
    know whether its request was made.
    """
    now = slot = clock.monotonic()
    while (later := max(limit.earliest(slot) for limit in limits)) != slot:
        slot = later
    slowest = max(limits, key=lambda limit: limit.interval_s)
    if slot - now > slowest.wait_s_max:
        raise TransientError(
            f"{slowest.what} are limited to one every {slowest.interval_s:g} s, and none is free "
            f"within {slowest.wait_s_max:g} s"
        )
    for limit in limits:
        limit.take(slot, now)
    try:
        if slot > now:
            await clock.sleep(slot - now)
    except asyncio.CancelledError:
        for limit in limits:
            limit.give_back(slot)
        raise
