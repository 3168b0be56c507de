"""Drops history that is older than its retention, in slices between which everything else runs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

from navarch.control.runtime.controller import Controller
from navarch.core.fleet import Change
from navarch.core.launch import Launch
from navarch.core.retention import LEAST, Retention, is_history
from navarch.ports.clock import Clock
from navarch.ports.evidence import AgingFiles
from navarch.ports.store import PRUNED_AT_ONCE, Store

LOOK_EVERY = timedelta(hours=1)

PAUSE = timedelta(milliseconds=50)
"""Between two slices. Commits that have arrived meanwhile are written first, so history that is
due takes no more than a tenth of the disk's time."""

EVENTS = "events"
LAUNCHES = "launches"
EVIDENCE = "evidence"
LOGS = "logs"
SPACE = "space"


class RetentionController(Controller):
    """Keeps the store and its files the size of what must be kept.

    It begins with the process, because a control plane that restarts every day must prune, too.
    Each key is one kind of history. A crash between two slices costs nothing: the next process
    looks for what is due again.
    """

    name = "retention"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        settings: Callable[[], Retention],
        *,
        evidence: AgingFiles | None = None,
        logs: AgingFiles | None = None,
    ) -> None:
        self._settings = settings
        self._files = {EVIDENCE: evidence, LOGS: logs}
        self._last_launch: Launch | None = None
        """The last launch of the previous slice."""
        self._slices: Mapping[str, Callable[[datetime], Awaitable[bool]]] = {
            EVENTS: self._prune_events,
            LAUNCHES: self._prune_launches,
            EVIDENCE: self._prune_evidence,
            LOGS: self._prune_logs,
            SPACE: self._shrink,
        }
        super().__init__(clock, store, self._slices)

    async def reconcile(self, keys: Sequence[str]) -> None:
        """Drop one slice of each kind, and queue the next one."""
        for key in keys:
            more = await self._slices[key](self._clock.now())
            self.queue.add_at(key, self._clock.now() + (PAUSE if more else LOOK_EVERY))

    async def _prune_events(self, now: datetime) -> bool:
        """Drop some events that are due; return whether there may be more."""
        before = now - max(self._settings().events, LEAST)
        oldest = await self._store.events(limit=1)
        if not oldest or oldest[0].event.at >= before:
            return False
        more = await self._store.prune(before)
        if not more:
            self.queue.add(SPACE)
        return more

    async def _prune_launches(self, now: datetime) -> bool:
        """Drop the launches of one page that are due; return whether another page may have some."""
        before = now - max(self._settings().launches, LEAST)
        page = await self._store.launches(after=self._last_launch, limit=PRUNED_AT_ONCE)
        due = [(each.token, each.instance) for each in page if is_history(each, before)]
        if due:
            change = Change(forget_launches=due)
            await self._store.commit(change, based_on=self._store.fleet().revision)
        more = len(page) == PRUNED_AT_ONCE and page[-1].asked_at < before
        self._last_launch = page[-1] if more else None
        return more

    async def _prune_evidence(self, now: datetime) -> bool:
        return await self._prune_files(EVIDENCE, now - self._settings().evidence)

    async def _prune_logs(self, now: datetime) -> bool:
        return await self._prune_files(LOGS, now - self._settings().logs)

    async def _prune_files(self, kind: str, before: datetime) -> bool:
        files = self._files[kind]
        bytes_max = self._settings().files_mb * 1_000_000
        return files is not None and await files.prune(before, bytes_max=bytes_max)

    async def _shrink(self, _now: datetime) -> bool:
        """Give some of the space that was freed back to the disk."""
        return await self._store.shrink()
