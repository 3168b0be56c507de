"""The newest revision of a fleet in memory: conflict check and notification of listeners."""

from collections.abc import Callable, Set

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet, apply, forgotten, moved, pools_touched
from navarch.core.pool import reshaped
from navarch.ports.store import Committed
from navarch.stores.subscribers import Listener, Subscribers

RECENT_MAX = 4096
"""The number of commits that the conflict check covers. A change based on an older revision is
refused: the plan behind it took too long."""


class StateCache:
    """Holds the newest fleet, detects conflicts and notifies the listeners.

    Every store is this plus a way to make changes durable, so all stores agree on what a
    conflict is.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._known_since = fleet.revision
        """The revision after which every write is recorded below."""
        self._written: dict[str, int] = {}
        """The recent revision that last wrote each thing. A conflict check looks up what a change
        depends on instead of reading every commit since: a fleet that registers at once makes
        thousands of commits between a reading and its commit."""
        self._written_earlier: dict[str, int] = {}
        """The same for as many revisions before those, dropped as a whole when all are too old."""
        self._rotated_at = fleet.revision
        """The last revision in `_written_earlier`."""
        self._subscribers = Subscribers()

    def check(self, change: Change, based_on: int, *, pending: Set[str] = frozenset()) -> Set[str]:
        """Return the names of everything that `change` writes, as `advance` needs them.

        Raises ConflictError if anything that the change depends on was written since `based_on`,
        or is `pending`: about to be written by earlier changes of the same batch.
        """
        fleet = self.fleet
        claims = {name for kind in fleet.kinds for name in kind.claims(change)}
        # Nothing was written since the newest revision, and most changes are based on that.
        if pending or based_on != fleet.revision:
            self._check_covered(based_on)
            guarded = [_members(pool) for pool in change.guards]
            self._check_unwritten([*claims, *guarded], based_on, pending)
        return claims.union(map(_members, pools_touched(fleet, change)))

    def _check_covered(self, based_on: int) -> None:
        newest = self.fleet.revision
        if based_on > newest or based_on < self._known_since:
            raise ConflictError(f"based on {based_on}, store is at {newest}")

    def _check_unwritten(self, needed: list[str], based_on: int, pending: Set[str]) -> None:
        if not pending.isdisjoint(needed):
            names = ", ".join(sorted(pending & {*needed}))
            raise ConflictError(f"based on {based_on}, but a concurrent change writes {names}")
        newest = max(map(self._written_at, needed), default=based_on)
        if newest > based_on:
            names = ", ".join(sorted({name for name in needed if self._written_at(name) == newest}))
            raise ConflictError(f"based on {based_on}, but revision {newest} moved {names}")

    def _written_at(self, name: str) -> int:
        """Return the recent revision that last wrote something, or 0."""
        return self._written.get(name) or self._written_earlier.get(name, 0)

    def advance(self, change: Change, claims: Set[str]) -> Fleet:
        """Make `change`, which is durable and writes `claims`, the newest; notify listeners.

        Raises the first error of a listener, after all listeners were called.
        """
        before = self.fleet
        after = self.fleet = apply(before, change)
        self._record(after.revision, claims)
        committed = Committed(
            before=before,
            after=after,
            change=change,
            moved=moved(before, change),
            forgotten=forgotten(before, change),
            reshaped=reshaped(before.pools, change.pools),
        )
        self._subscribers.notify(committed)
        return after

    def _record(self, revision: int, claims: Set[str]) -> None:
        self._written.update(dict.fromkeys(claims, revision))
        self._known_since = max(self._known_since, revision - RECENT_MAX)
        if revision - self._rotated_at >= RECENT_MAX:
            self._written_earlier, self._written = self._written, {}
            self._rotated_at = revision

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each advance."""
        return self._subscribers.join(listener)


def _members(pool: str) -> str:
    return f"members of {pool}"
