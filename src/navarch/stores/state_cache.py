"""The newest revision of a fleet in memory: conflict check and notification of listeners."""

from collections.abc import Callable, Mapping, Set

from navarch.core.errors import ConflictError
from navarch.core.fleet import (
    Change,
    Fleet,
    apply,
    forgotten,
    kinds_written,
    moved,
    pools_touched,
)
from navarch.core.pool import reshaped
from navarch.ports.store import Committed

Listener = Callable[[Committed], None]

RECENT_MAX = 4096
"""The number of commits that the conflict check covers. A change based on an older revision is
refused: the plan behind it took too long."""


class StateCache:
    """Holds the newest fleet, detects conflicts and notifies the listeners.

    Every store is this plus a way to make changes durable, so all stores agree on what a
    conflict is.
    """

    def __init__(self, fleet: Fleet, cursors: Mapping[str, int] | None = None) -> None:
        self.fleet = fleet
        self.cursors = dict(cursors or {})
        """The last event of the journal that each reader has processed."""
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
        self._listeners: list[Listener] = []

    def check(self, change: Change, based_on: int, *, pending: Set[str] = frozenset()) -> Set[str]:
        """Return the names of everything that `change` writes, as `advance` needs them.

        Raises ConflictError if anything that the change depends on was written since `based_on`,
        or is `pending`: about to be written by earlier changes of the same batch.
        """
        newest = self.fleet.revision
        if based_on > newest or based_on < self._known_since:
            raise ConflictError(f"based on {based_on}, store is at {newest}")
        claims = {
            name for kind in kinds_written(self.fleet, change) for name in kind.claims(change)
        }
        needed = claims.union(map(_members, change.guards))
        if not pending.isdisjoint(needed):
            names = ", ".join(sorted(pending & needed))
            raise ConflictError(f"based on {based_on}, but a concurrent change writes {names}")
        written = {
            name: self._written.get(name) or self._written_earlier.get(name, 0) for name in needed
        }
        last = max(written.values(), default=0)
        if last > based_on:
            names = ", ".join(sorted(name for name in written if written[name] == last))
            raise ConflictError(f"based on {based_on}, but revision {last} moved {names}")
        return claims.union(map(_members, pools_touched(self.fleet, change)))

    def advance(self, change: Change, claims: Set[str]) -> Fleet:
        """Make `change`, which is durable and writes `claims`, the newest; notify listeners.

        Raises the first error of a listener, after all listeners were called.
        """
        before = self.fleet
        after = self.fleet = apply(before, change)
        self.cursors.update(change.cursors)
        self._written.update(dict.fromkeys(claims, after.revision))
        self._known_since = max(self._known_since, after.revision - RECENT_MAX)
        if after.revision - self._rotated_at >= RECENT_MAX:
            self._written_earlier, self._written = self._written, {}
            self._rotated_at = after.revision
        committed = Committed(
            before=before,
            after=after,
            change=change,
            moved=moved(before, change),
            forgotten=forgotten(before, change),
            reshaped=reshaped(before.pools, change.pools),
        )
        # The commit is durable, so a faulty listener must not keep it from the others.
        first_error: Exception | None = None
        for listener in tuple(self._listeners):
            try:
                listener(committed)
            except Exception as error:  # noqa: BLE001 - raised below
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return after

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each advance; return the function that ends the subscription."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return leave


def _members(pool: str) -> str:
    return f"members of {pool}"
