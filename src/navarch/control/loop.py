"""Running reconcilers: one activation at a time, on a poke or at the next known deadline."""

import asyncio
import contextlib
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from navarch.core.errors import ConflictError, NavarchError
from navarch.ports.clock import Clock, Entropy

log = structlog.get_logger(__name__)

CONFLICTS_MAX = 10
"""Conflicts in a row before a loop stops hurrying and waits like after any other failure."""

LONGEST_SLEEP = timedelta(minutes=10)
"""A loop looks around this often even when it knows of no reason to."""


class Reconciler(Protocol):
    """Compares what is with what should be, and narrows the gap once.

    `reconcile` takes no arguments on purpose: it must do the right thing after a
    restart, when nobody remembers why it was woken.
    """

    @property
    def name(self) -> str:
        """The name used in logs and metrics."""
        ...

    async def reconcile(self) -> datetime | None:
        """Make one attempt; return when to make the next if nothing changes before."""
        ...


class Loop:
    """Wakes one reconciler for ever."""

    def __init__(
        self, clock: Clock, entropy: Entropy, reconciler: Reconciler, *, strict: bool
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._reconciler = reconciler
        self._strict = strict
        self._poke = asyncio.Event()
        self._failures = 0

    def poke(self) -> None:
        """Ask for a round soon."""
        self._poke.set()

    async def run(self) -> None:
        """Reconcile on every poke and at every deadline, until cancelled."""
        while True:
            self._poke.clear()
            await self._wait(await self._round())

    async def _round(self) -> datetime | None:
        try:
            wake_at = await self._reconciler.reconcile()
        except ConflictError as error:
            return self._after_failure(error, hurry=self._failures < CONFLICTS_MAX)
        except NavarchError as error:
            return self._after_failure(error)
        except Exception as error:
            if self._strict:
                raise
            # A bug in one loop must not stop the others from keeping the fleet alive.
            log.exception("loop.bug", loop=self._reconciler.name)
            return self._after_failure(error)
        self._failures = 0
        return wake_at

    def _after_failure(self, error: Exception, *, hurry: bool = False) -> datetime:
        self._failures += 1
        if hurry:
            return self._clock.now()
        log.warning("loop.failed", loop=self._reconciler.name, error=str(error))
        seconds = min(2.0 ** min(self._failures, 6), 60.0)
        # Jitter keeps loops that failed together from coming back together.
        return self._clock.now() + timedelta(seconds=seconds * self._entropy.uniform(0.5, 1.0))

    async def _wait(self, wake_at: datetime | None) -> None:
        pause = LONGEST_SLEEP
        if wake_at is not None:
            pause = min(pause, wake_at - self._clock.now())
        with contextlib.suppress(TimeoutError):
            # Even when nothing is to be waited for, others get their turn.
            async with asyncio.timeout(max(pause.total_seconds(), 0.0)):
                await self._poke.wait()
