"""A store that forgets when the process ends: for tests, the simulator and a first try."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice, takewhile

from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.inventory import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.store import Committed
from navarch.stores.head import Head


class MemoryStore:
    """Keeps everything in attributes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._head = Head(Fleet())
        self._journal: list[Recorded] = []
        self._journal_start = 0
        self._bookmarks: dict[str, int] = {}
        self._events_ever = 0
        self._by_subject: dict[Subject, list[Recorded]] = {}
        self._launches: dict[tuple[Token, str], Launch] = {}
        self._inventories: dict[NodeId, Inventory] = {}

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._head.fleet

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change`, or raise ConflictError."""
        self._head.check(change, based_on)
        revision = self._head.fleet.revision + 1
        for event in change.events:
            self._events_ever += 1
            entry = Recorded(number=self._events_ever, revision=revision, event=event)
            self._journal.append(entry)
            self._by_subject.setdefault(event.about, []).append(entry)
        for launch in change.launches:
            self._launches[launch.token, launch.instance or ""] = launch
        self._inventories.update(change.inventories)
        self._bookmarks.update(change.bookmarks)
        for node in change.forget_nodes:
            self._inventories.pop(node, None)
        return self._head.advance(change)

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit."""
        return self._head.subscribe(listener)

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        about: Subject | None = None,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        entries = self._journal if about is None else self._by_subject.get(about, [])
        start = bisect_right(entries, after, key=lambda entry: entry.number)
        newer = (entry for entry in entries[start:] if entry.revision > after_revision)
        return list(islice(newer, limit))

    def bookmark(self, reader: str) -> int | None:
        """Return how far into the journal `reader` has read."""
        return self._bookmarks.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._journal_start

    async def prune(self, before: datetime) -> None:
        """Drop the part of the journal that is older than `before`."""
        old = list(takewhile(lambda entry: entry.event.at < before, self._journal))
        if old:
            self._journal_start = old[-1].revision
            self._journal = self._journal[len(old) :]
            self._by_subject = {}
            for entry in self._journal:
                self._by_subject.setdefault(entry.event.about, []).append(entry)

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        past = sorted(self._launches.values(), key=_place)
        found = [
            launch
            for launch in past
            if (pool is None or launch.pool == pool)
            and (after is None or _place(launch) > _place(after))
        ]
        return found if limit is None else found[:limit]

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found."""
        return self._inventories.get(node)


def _place(launch: Launch) -> tuple[datetime, str, str]:
    return launch.asked_at, launch.token, launch.instance or ""
