"""A store without a disk: for tests, the simulator and a first try."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.errors import SupersededError
from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.instance import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.store import PRUNED_AT_ONCE, Committed, StoreInfo
from navarch.stores.state_cache import StateCache


@dataclass(slots=True)
class _Contents:
    """What the store holds, shared by every term."""

    state: StateCache
    journal: list[Recorded] = field(default_factory=list)
    journal_start: int = 0
    events_ever: int = 0
    by_subject: dict[Subject, list[Recorded]] = field(default_factory=dict)
    """The first `indexed` entries of the journal by subject: filled when a subject is read."""
    indexed: int = 0
    launches: dict[tuple[Token, str], Launch] = field(default_factory=dict)
    inventories: dict[NodeId, Inventory] = field(default_factory=dict)
    terms: int = 1

    def about(self, subject: Subject) -> Sequence[Recorded]:
        """Return the part of the journal that is about `subject`."""
        for entry in self.journal[self.indexed :]:
            self.by_subject.setdefault(entry.event.about, []).append(entry)
        self.indexed = len(self.journal)
        return self.by_subject.get(subject, ())

    def cut_journal(self, entries: int) -> None:
        """Drop that many entries, the oldest ones."""
        self.journal = self.journal[entries:]
        self.by_subject, self.indexed = {}, 0


class MemoryStore:
    """A store in memory that several control planes may share; only the newest term writes."""

    def __init__(self, cluster: Cluster, *, empty: Fleet | None = None) -> None:
        self.cluster = cluster
        self.on_prune: Callable[[Sequence[Recorded]], None] = lambda _: None
        """Called with the entries that the journal drops, in order."""
        self._contents = _Contents(StateCache(empty or Fleet()))
        self._term = self._contents.terms

    @property
    def term(self) -> int:
        """The number of times this state was opened, this time included."""
        return self._term

    def take_over(self) -> "MemoryStore":
        """Return a store of the next term with the same contents; this one can no longer write."""
        self._contents.terms += 1
        other = copy(self)
        other._term = self._contents.terms  # noqa: SLF001 - the same class
        return other

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._contents.state.fleet

    def let_go(self) -> None:
        """Drop the journal, the ledger and the inventories, once they have been read."""
        contents = self._contents
        contents.cut_journal(len(contents.journal))
        contents.launches.clear()
        contents.inventories.clear()

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change`, or raise ConflictError."""
        self._check_term()
        contents = self._contents
        claims = contents.state.check(change, based_on)
        revision = contents.state.fleet.revision + 1
        contents.journal += [
            Recorded(number=number, revision=revision, event=event)
            for number, event in enumerate(change.events, start=contents.events_ever + 1)
        ]
        contents.events_ever += len(change.events)
        for launch in change.launches:
            contents.launches[launch.token, launch.instance or ""] = launch
        for token, instance in change.forget_launches:
            contents.launches.pop((token, instance or ""), None)
        contents.inventories.update(change.inventories)
        for node in change.forget_nodes:
            contents.inventories.pop(node, None)
        return contents.state.advance(change, claims)

    async def info(self) -> StoreInfo:
        """Return that it is memory."""
        return StoreInfo(kind="memory")

    async def confirm(self) -> None:
        """Raise SupersededError if a later term has begun."""
        self._check_term()

    def _check_term(self) -> None:
        if self._term != self._contents.terms:
            raise SupersededError(
                f"another control plane has taken over (its term is {self._contents.terms}, "
                f"the term of this one {self._term})"
            )

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit."""
        return self._contents.state.subscribe(listener)

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        entries = self._contents.journal if about is None else self._contents.about(about)
        # Both numbers and revisions only grow.
        start = bisect_right(entries, after, key=_number)
        start = bisect_right(entries, after_revision, lo=start, key=_revision)
        end = len(entries) if before is None else bisect_left(entries, before, key=_number)
        if newest_first:
            return entries[max(start, end - limit) : end][::-1]
        return entries[start : min(start + limit, end)]

    def cursor(self, reader: str) -> int | None:
        """Return the cursor of `reader` in the journal, if it has one."""
        return self._contents.state.cursors.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._contents.journal_start

    async def prune(self, before: datetime, *, limit: int = PRUNED_AT_ONCE) -> bool:
        """Drop a piece of the journal that is older than `before`."""
        self._check_term()
        contents, journal = self._contents, self._contents.journal
        last = journal[min(limit, len(journal)) - 1].revision if journal else 0
        looked_at = journal[: bisect_right(journal, last, key=_revision)]
        kept = next((entry for entry in looked_at if entry.event.at >= before), None)
        old = [entry for entry in looked_at if kept is None or entry.revision < kept.revision]
        if old:
            self.on_prune(old)
            contents.journal_start = old[-1].revision
            contents.cut_journal(len(old))
        return kept is None and len(looked_at) < len(journal)

    async def shrink(self) -> bool:
        """Do nothing: memory needs no help."""
        return False

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        past = sorted(self._contents.launches.values(), key=_place)
        found = [
            launch
            for launch in past
            if (pool is None or launch.pool == pool)
            and (after is None or _place(launch) > _place(after))
        ]
        return found if limit is None else found[:limit]

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory that the agent of `node` reported."""
        return self._contents.inventories.get(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of some nodes."""
        known = self._contents.inventories
        return {node: known[node] for node in nodes if node in known}


def _number(entry: Recorded) -> int:
    return entry.number


def _revision(entry: Recorded) -> int:
    return entry.revision


def _place(launch: Launch) -> tuple[datetime, str, str]:
    return launch.asked_at, launch.token, launch.instance or ""
