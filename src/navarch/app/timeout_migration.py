"""How long silence is borne while agents still beat at a pace they were told before."""

from collections.abc import Callable
from datetime import timedelta

from navarch.core.fleet import Change
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.service.agents import Timing
from navarch.stores.telemetry import TelemetryTable

BOOKMARK = "heartbeats/silence_ms"


class TimeoutMigration:
    """Changes the timeout of heartbeats without blaming agents that have not heard of it.

    An agent learns its interval when it registers. When the pace quickens, every agent is
    asked to register again, and until all have had the time to, the longer timeout holds.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        columns: TelemetryTable,
        *,
        timing: Callable[[], Timing],
        ask_for_introductions: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._columns = columns
        self._timing = timing
        self._ask_for_introductions = ask_for_introductions

    async def adopt(self) -> None:
        """Bear silence as the present timing says, or longer if an older timing did."""
        silence = self._timing().silence
        known_ms = self._store.cursor(BOOKMARK)
        before = silence if known_ms is None else timedelta(milliseconds=known_ms)
        self._columns.timeout = max(before, silence)
        if silence < before:
            self._ask_for_introductions()
        elif silence > before or known_ms is None:
            await self._remember(silence)

    async def run(self) -> None:
        """Let the longer timeout end once everybody has heard of the shorter one."""
        while True:
            await self._clock.sleep(max(self._columns.timeout.total_seconds() * 3, 1.0))
            silence = self._timing().silence
            if self._columns.timeout != silence:
                self._columns.timeout = silence
                await self._remember(silence)

    async def _remember(self, silence: timedelta) -> None:
        value = silence // timedelta(milliseconds=1)
        change = Change(cursors={BOOKMARK: value})
        await self._store.commit(change, based_on=self._store.fleet().revision)
