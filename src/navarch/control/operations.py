"""Effects under way: many at once, but never two about the same thing."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from navarch.core.errors import NavarchError, SupersededError
from navarch.fleet.pacing import pause
from navarch.ports.clock import Clock, Entropy

log = structlog.get_logger(__name__)

ERRANDS_MAX = 256
"""How many calls to the outside may be under way at once."""

SLOW_MAX = 1024
"""How many that take minutes. They have a place of their own, where they keep nobody waiting."""


Errand = Callable[[], Awaitable[None]]


class _Room:
    """Places for so many errands at once, and those that wait for one, in line."""

    def __init__(self, places: int) -> None:
        self.free = places
        self.line: deque[tuple[str, Errand]] = deque()


class OperationRunner:
    """Runs calls to the outside in the background, so that no slow one holds up a round.

    Nothing here is durable. An errand must be safe to send again: after a restart the
    state says what still has to be done.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        tasks: asyncio.TaskGroup,
        *,
        done: Callable[[], None],
        strict: bool,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._done = done
        self._strict = strict
        self._room = _Room(ERRANDS_MAX)
        self._slow_room = _Room(SLOW_MAX)
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, datetime] = {}

    def send(self, key: str, errand: Errand, *, slow: bool = False) -> datetime | None:
        """Run `errand`, unless one of that key has failed lately: then return when to come back.

        When it is over, however it went, every loop is poked. One that may take minutes is `slow`.
        """
        assert key not in self._busy, f"{key} is under way already"
        wait_until = self._not_before.get(key)
        if wait_until is not None and wait_until > self._clock.now():
            return wait_until
        self._busy.add(key)
        room = self._slow_room if slow else self._room
        if room.free:
            self._begin(key, errand, room)
        else:
            room.line.append((key, errand))
        return None

    def busy(self, key: str) -> bool:
        """Return whether an errand of that key is under way."""
        return key in self._busy

    def _begin(self, key: str, errand: Errand, room: "_Room") -> None:
        room.free -= 1
        self._tasks.create_task(self._run(key, errand, room), name=key)

    async def _run(self, key: str, errand: Errand, room: "_Room") -> None:
        try:
            await errand()
        except SupersededError:
            raise
        except NavarchError as error:
            self._failed(key, error)
        except Exception as error:
            if self._strict:
                raise
            log.exception("errand.bug", errand=key)
            self._failed(key, error)
        else:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
        finally:
            self._busy.discard(key)
            room.free += 1
        # Not where it was cancelled: then nothing more is to be begun.
        while room.free and room.line:
            self._begin(*room.line.popleft(), room)
        self._done()

    def _failed(self, key: str, error: Exception) -> None:
        self._failures[key] = self._failures.get(key, 0) + 1
        seconds = pause(self._failures[key]).total_seconds() * self._entropy.uniform(0.5, 1.0)
        self._not_before[key] = self._clock.now() + timedelta(seconds=seconds)
        log.warning("errand.failed", errand=key, error=str(error))
