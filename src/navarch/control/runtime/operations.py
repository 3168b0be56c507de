"""Operations in flight: many at once, but never two of the same key."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from navarch.core.errors import NavarchError, SupersededError
from navarch.core.launch import pause
from navarch.ports.clock import Clock, Entropy

log = structlog.get_logger(__name__)

OPERATIONS_MAX = 256
"""How many calls to one system outside may be in flight at once. Calls to a system that hangs must
not take the slots of others."""

SLOW_MAX = 1024
"""How many of those that take minutes. They have slots of their own and delay no others."""


Operation = Callable[[], Awaitable[None]]


class _Slots:
    """Slots for concurrent operations, and the operations that are queued for one."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.queued: deque[tuple[str, Operation, Callable[[], object]]] = deque()


class OperationRunner:
    """Runs calls to the outside in the background, so that no slow call delays a round.

    Nothing here is durable. An operation must be safe to start again: after a restart the state
    shows what is left to do.
    """

    def __init__(
        self, clock: Clock, entropy: Entropy, tasks: asyncio.TaskGroup, *, strict: bool
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._tasks = tasks
        self._strict = strict
        self._slots: dict[tuple[str, bool], _Slots] = {}
        """By system, and whether calls take minutes."""
        self._busy: set[str] = set()
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, datetime] = {}
        self._superseded = False
        """Whether another process leads: this one starts nothing more."""

    def send(
        self,
        key: str,
        operation: Operation,
        *,
        then: Callable[[], object] = lambda: None,
        slow: bool = False,
        system: str = "",
    ) -> datetime | None:
        """Start `operation`; return when to come back if one of that key has failed lately.

        `system` names what is called: a provider, or the workload system. `then` is called when it
        is over, however it ended. An operation that may take minutes is `slow`.
        """
        assert key not in self._busy, f"{key} is in flight already"
        if self._superseded:
            return None
        wait_until = self._not_before.get(key)
        if wait_until is not None and wait_until > self._clock.now():
            return wait_until
        self._busy.add(key)
        slots = self._slots.setdefault((system, slow), _Slots(SLOW_MAX if slow else OPERATIONS_MAX))
        if slots.free:
            self._begin(key, operation, then, slots)
        else:
            slots.queued.append((key, operation, then))
        return None

    def busy(self, key: str) -> bool:
        """Return whether an operation of that key is in flight."""
        return key in self._busy

    def _begin(
        self, key: str, operation: Operation, then: Callable[[], object], slots: _Slots
    ) -> None:
        slots.free -= 1
        self._tasks.create_task(self._run(key, operation, then, slots), name=key)

    async def _run(
        self, key: str, operation: Operation, then: Callable[[], object], slots: _Slots
    ) -> None:
        try:
            await operation()
        except SupersededError:
            self._superseded = True
            raise
        except NavarchError as error:
            self._record_failure(key, error)
        except Exception as error:
            if self._strict:
                raise
            log.exception("operation.bug", operation=key)
            self._record_failure(key, error)
        else:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
        finally:
            self._busy.discard(key)
            slots.free += 1
        # A cancelled operation does not get here: nothing more may start then.
        while slots.free and slots.queued:
            self._begin(*slots.queued.popleft(), slots)
        then()

    def _record_failure(self, key: str, error: Exception) -> None:
        self._failures[key] = self._failures.get(key, 0) + 1
        seconds = pause(self._failures[key]).total_seconds() * self._entropy.uniform(0.5, 1.0)
        self._not_before[key] = self._clock.now() + timedelta(seconds=seconds)
        log.warning("operation.failed", operation=key, error=str(error))
