"""A store that forgets when the process ends: for tests, the simulator and a first try."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from navarch.core.errors import SupersededError
from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.inventory import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.store import Committed, Topic
from navarch.stores.state_cache import StateCache


@dataclass(slots=True)
class _Shelf:
    """What is kept, whoever leads."""

    head: StateCache = field(default_factory=lambda: StateCache(Fleet()))
    journal: list[Recorded] = field(default_factory=list)
    journal_start: int = 0
    bookmarks: dict[str, int] = field(default_factory=dict)
    events_ever: int = 0
    by_subject: dict[Subject, list[Recorded]] = field(default_factory=dict)
    """The journal by what it is about, as far as it has been sorted: few ever ask."""
    sorted_to: int = 0
    """How many entries of the journal that is."""
    launches: dict[tuple[Token, str], Launch] = field(default_factory=dict)
    inventories: dict[NodeId, Inventory] = field(default_factory=dict)
    terms: int = 1

    def about(self, subject: Subject) -> Sequence[Recorded]:
        """Return the part of the journal that is about `subject`."""
        for entry in self.journal[self.sorted_to :]:
            self.by_subject.setdefault(entry.event.about, []).append(entry)
        self.sorted_to = len(self.journal)
        return self.by_subject.get(subject, ())

    def cut_journal(self, entries: int) -> None:
        """Drop that many entries, the oldest ones."""
        self.journal = self.journal[entries:]
        self.by_subject, self.sorted_to = {}, 0


class MemoryStore:
    """Keeps everything in attributes, for as many control planes as there are: one leads."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.on_prune: Callable[[Sequence[Recorded]], None] = lambda _: None
        """Hears what the journal drops, in order."""
        self._shelf = _Shelf()
        self._term = self._shelf.terms

    @property
    def term(self) -> int:
        """How many have led with this state."""
        return self._term

    def take_over(self) -> "MemoryStore":
        """Return the same state for another that leads from now on; this one writes no more."""
        self._shelf.terms += 1
        other = copy(self)
        other._term = self._shelf.terms  # noqa: SLF001 - it is one of us
        return other

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._shelf.head.fleet

    def let_go(self) -> None:
        """Drop the journal, the ledger and the inventories, for whoever has read all he wants."""
        shelf = self._shelf
        shelf.cut_journal(len(shelf.journal))
        shelf.launches.clear()
        shelf.inventories.clear()

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change`, or raise ConflictError."""
        self._check_term()
        shelf = self._shelf
        head = shelf.head
        touched = head.check(change, based_on)
        revision = head.fleet.revision + 1
        shelf.journal += [
            Recorded(number=number, revision=revision, event=event)
            for number, event in enumerate(change.events, start=shelf.events_ever + 1)
        ]
        shelf.events_ever += len(change.events)
        for launch in change.launches:
            shelf.launches[launch.token, launch.instance or ""] = launch
        if change.inventories:
            shelf.inventories.update(change.inventories)
        if change.bookmarks:
            shelf.bookmarks.update(change.bookmarks)
        for node in change.forget_nodes:
            shelf.inventories.pop(node, None)
        return head.advance(change, touched)

    def _check_term(self) -> None:
        if self._term != self._shelf.terms:
            raise SupersededError(
                f"another control plane leads (term {self._shelf.terms}, this one's was "
                f"{self._term})"
            )

    def subscribe(
        self, listener: Callable[[Committed], None], *, about: Collection[Topic] | None = None
    ) -> Callable[[], None]:
        """Call `listener` after each commit, or after those that are `about` some topic."""
        return self._shelf.head.subscribe(listener, about)

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        about: Subject | None = None,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        entries = self._shelf.journal if about is None else self._shelf.about(about)
        # Neither numbers nor revisions ever go back.
        start = bisect_right(entries, after, key=lambda entry: entry.number)
        start = bisect_right(entries, after_revision, lo=start, key=lambda entry: entry.revision)
        return entries[start : start + limit]

    def bookmark(self, reader: str) -> int | None:
        """Return how far into the journal `reader` has read."""
        return self._shelf.bookmarks.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._shelf.journal_start

    async def prune(self, before: datetime) -> None:
        """Drop the part of the journal that is older than `before`."""
        self._check_term()
        shelf = self._shelf
        old = list(takewhile(lambda entry: entry.event.at < before, shelf.journal))
        if old:
            self.on_prune(old)
            shelf.journal_start = old[-1].revision
            shelf.cut_journal(len(old))

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        past = sorted(self._shelf.launches.values(), key=_place)
        found = [
            launch
            for launch in past
            if (pool is None or launch.pool == pool)
            and (after is None or _place(launch) > _place(after))
        ]
        return found if limit is None else found[:limit]

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found."""
        return self._shelf.inventories.get(node)


def _place(launch: Launch) -> tuple[datetime, str, str]:
    return launch.asked_at, launch.token, launch.instance or ""
