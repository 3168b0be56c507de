"""The newest revision of a fleet: what it is, what changed lately, and who wants to know."""

from collections.abc import Callable, Collection, Set

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet, apply, forgotten, moved, pools_touched
from navarch.core.numbering import reshaped
from navarch.ports.store import Committed, Topic
from navarch.stores.subscribers import Listener, Subscribers

RECENT_MAX = 4096
"""How many commits are remembered for telling conflicts apart. A plan based on an older
revision is refused outright: it has been thinking for too long."""


class StateCache:
    """Keeps the newest fleet in memory, decides conflicts and tells the listeners.

    Every store is this plus a way to make changes durable, so that they agree on what a
    conflict is.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._known_since = fleet.revision
        """Of whatever moved after this revision it is known."""
        self._moved: dict[str, int] = {}
        """In which of the recent revisions each thing moved last, so that a change asks for
        what it depends on and not for every commit since: a fleet that registers at once makes
        thousands between a reading and its commit."""
        self._moved_before: dict[str, int] = {}
        """The same of as many revisions before those. It is forgotten as a whole once all of it is
        too old: name by name that took every commit as long as to remember its own."""
        self._turned_at = fleet.revision
        """The last revision that is in there."""
        self._audience = Subscribers()

    def check(self, change: Change, based_on: int, *, beside: Set[str] = frozenset()) -> Set[str]:
        """Return everything that `change` moves; `advance` wants to know.

        Raises ConflictError if what it depends on has moved since `based_on`. What is about to
        be written `beside` it, and before it, has as good as moved.
        """
        written, fleet = _written(change), self.fleet
        # Since the newest revision nothing can have moved, and most changes are based on that.
        if beside or based_on != fleet.revision:
            self._check_remembered(based_on)
            guarded = [f"members of {pool}" for pool in change.guards]
            self._check_unmoved([*written, *guarded], based_on, beside)
        for pool in pools_touched(fleet, change):
            written.add(f"members of {pool}")
        return written

    def _check_remembered(self, based_on: int) -> None:
        newest = self.fleet.revision
        if based_on > newest or based_on < self._known_since:
            raise ConflictError(f"based on {based_on}, store is at {newest}")

    def _check_unmoved(self, wanted: list[str], based_on: int, beside: Set[str]) -> None:
        if beside and not beside.isdisjoint(wanted):
            names = ", ".join(sorted({what for what in wanted if what in beside}))
            raise ConflictError(f"based on {based_on}, but somebody is moving {names}")
        newest = based_on
        for what in wanted:
            newest = max(newest, self._moved_at(what))
        if newest > based_on:
            names = ", ".join(sorted({what for what in wanted if self._moved_at(what) == newest}))
            raise ConflictError(f"based on {based_on}, but revision {newest} moved {names}")

    def _moved_at(self, what: str) -> int:
        """Return in which revision something moved last, as far as that is known; else 0."""
        return self._moved.get(what) or self._moved_before.get(what, 0)

    def advance(self, change: Change, touched: Set[str]) -> Fleet:
        """Make `change`, which is durable by now and moves what is `touched`, the newest."""
        before = self.fleet
        moves, gone = moved(before, change), forgotten(before, change)
        after = self.fleet = apply(before, change, moves, gone)
        self._remember(after.revision, touched)
        committed = Committed(
            before=before,
            after=after,
            change=change,
            moved=moves,
            forgotten=gone,
            reshaped=reshaped(before.pools, change.pools) if change.pools else (),
        )
        self._audience.tell(committed)
        return after

    def _remember(self, revision: int, touched: Set[str]) -> None:
        self._moved.update(dict.fromkeys(touched, revision))
        if revision - self._known_since > RECENT_MAX:
            self._known_since = revision - RECENT_MAX
        if revision - self._turned_at >= RECENT_MAX:
            self._moved_before, self._moved, self._turned_at = self._moved, {}, revision

    def subscribe(
        self, listener: Listener, about: Collection[Topic] | None = None
    ) -> Callable[[], None]:
        """Call `listener` after each advance, or after those that are `about` some topic."""
        return self._audience.join(listener, about)


def _written(change: Change) -> set[str]:
    # Most changes write one or two of these kinds, and one of each.
    found: set[str] = set()
    for pool in change.pools:
        found.add(f"pool {pool.name}")
    for node in change.nodes:
        found.add(f"node {node.id}")
    if change.forget_nodes:
        found |= {f"node {name}" for name in change.forget_nodes}
    if change.commands:
        found |= {f"command {command.id}" for command in change.commands}
    if change.forget_commands:
        found |= {f"command {command}" for command in change.forget_commands}
    for incident in change.incidents:
        found.add(f"incident {incident.id}")
        # Two reports must not each open an incident for what they both saw a part of.
        found.add(f"incidents of {incident.place}")
    if change.forget_incidents:
        found |= {f"incident {name}" for name in change.forget_incidents}
    if change.recoveries:
        found |= {f"recovery {recovery.id}" for recovery in change.recoveries}
    if change.forget_recoveries:
        found |= {f"recovery {recovery}" for recovery in change.forget_recoveries}
    if change.jobs:
        found |= {f"job {job.name}" for job in change.jobs}
    if change.forget_jobs:
        found |= {f"job {job}" for job in change.forget_jobs}
    return found
