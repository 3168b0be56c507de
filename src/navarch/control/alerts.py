"""The alert reconciler: passes notable events on to people, each at least once."""

from datetime import datetime

from navarch.control.operations import OperationRunner
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.ports.alerts import AlertNotifier
from navarch.ports.clock import Clock
from navarch.ports.store import Store

NOTABLE = frozenset(
    {
        "node.cordoned",
        "node.gone",
        "node.retiring",
        "launch.refused",
        "stray.terminating",
        "provider.strangers",
        "pool.deleted",
        "pool.held",
        "pool.braked",
        "pool.unbraked",
        "policy.failed",
        "gang.given_up",
        "recovery.ticket",
        "recovery.ordered",
        "node.would_have",
        "budget.near",
        "budget.spent",
        "command.failed",
        "command.expired",
    }
)
"""What people want to hear of unasked. Health is notable when it is bad."""

READ_AGAIN_MAX = 1_000
"""So many revisions in which nothing was notable are read again after a restart, at most. To write
down after each that it was read would double the commits of a fleet."""


class AlertReconciler:
    """Follows the journal for one notifier, from a place that survives a crash."""

    def __init__(
        self, clock: Clock, store: Store, notifier: AlertNotifier, errands: OperationRunner
    ) -> None:
        self.name = f"alerts/{notifier.name}"
        self._clock = clock
        self._store = store
        self._notifier = notifier
        self._errands = errands
        self._read_to: int | None = None
        self._passed_on = 0
        """The number of the last entry that was read: nothing up to it is passed on again, though
        a revision was read only in part, or while it was the newest."""
        self._is_behind = False
        """Whether something was passed on since the cursor was written."""

    async def reconcile(self) -> datetime | None:
        """Pass on what has been written since the last time."""
        revision = self._store.fleet().revision
        if self._errands.busy(self.name) or revision == self._read_to:
            return None
        return self._errands.send(self.name, self._pass_on)

    async def _pass_on(self) -> None:
        if self._read_to is None:
            # A notifier that is new here is not told the whole past.
            self._read_to = self._store.cursor(self.name)
            if self._read_to is None:
                await self._remember(self._store.fleet().revision)
                return
        newest = self._store.fleet().revision
        while page := await self._store.events(after=self._passed_on, after_revision=self._read_to):
            for entry in page:
                if is_notable(entry.event):
                    if self._is_behind:
                        # The rest of its revision comes again after a crash: twice is allowed.
                        await self._remember(entry.revision - 1)
                    await self._notifier.notify(entry)
                    self._is_behind = True
                self._passed_on = entry.number
        unmarked = newest - (self._store.cursor(self.name) or 0)
        if self._is_behind or unmarked > READ_AGAIN_MAX:
            await self._remember(newest)
            self._is_behind = False
        self._read_to = newest

    async def _remember(self, revision: int) -> None:
        """Write down up to where everything has been passed on."""
        if revision > (self._store.cursor(self.name) or -1):
            change = Change(cursors={self.name: revision})
            await self._store.commit(change, based_on=self._store.fleet().revision)


def is_notable(event: Event) -> bool:
    """Return whether people want to hear of `event` unasked."""
    return event.kind in NOTABLE or event.facts.get("health") == "unhealthy"
