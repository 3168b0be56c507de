"""The budget reconciler: keeps count of what is spent, and tells people before it is too much."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO
from navarch.control.ledger import Ledger
from navarch.core.budget import Budget
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import Token
from navarch.fleet.money.budgets import Level, Spending, levels_reached, veto
from navarch.fleet.money.ledger import month_start
from navarch.fleet.selection import ProposedLaunch, Take
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

COUNT_EVERY = timedelta(minutes=1)
"""Between counts. In between, what ran at the last count is taken to run on."""


class BudgetReconciler:
    """Counts spending for every budget; planners ask it before they buy."""

    name = "budgets"

    def __init__(
        self, clock: Clock, store: Store, budgets: Sequence[Budget], ledger: Ledger
    ) -> None:
        """`budgets` is looked at in every round: a reload may change what is in it."""
        self._clock = clock
        self._store = store
        self._budgets = budgets
        self._ledger = ledger
        self._spending: tuple[Spending, ...] = ()
        self._asked_since: dict[Token, Take] = {}
        """Launches written down after the last count."""
        self._counted_at: datetime | None = None
        self._counted_for: tuple[Budget, ...] = ()
        self._told: dict[str, Level] = {}
        self._told_for: tuple[datetime, tuple[Budget, ...]] | None = None
        self.on_sooner: Callable[[], None] = lambda: None
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Count, and write down which budgets are nearly or wholly spent."""
        now = self._clock.now()
        await self.count(now)
        if not self._counted_for:
            return now + COUNT_EVERY
        if self._told_for != (month_start(now), self._counted_for):
            await self._remember_what_was_told(now)
        reached = levels_reached(self._spending, self._told, now=now)
        if reached:
            events = [_event(spending, level, now) for spending, level in reached]
            await self._store.commit(Change(events=events), based_on=self._store.fleet().revision)
            self._told |= {str(spending.budget): level for spending, level in reached}
        return now + COUNT_EVERY

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do: with budgets, what is spent grows."""
        if self._budgets or self._counted_for or self._counted_at is None:
            return LONG_AGO
        return self._counted_at + COUNT_EVERY

    async def count(self, now: datetime) -> None:
        """Bring the count up to date, unless it was taken lately for the same budgets."""
        budgets = tuple(self._budgets)
        lately = self._counted_at is not None and now < self._counted_at + COUNT_EVERY
        if lately and budgets == self._counted_for:
            return
        # Before the count is taken: what is asked for while the books are read counts as well.
        self._asked_since = {}
        self._spending = await self._ledger.spendings(budgets, now=now)
        self._counted_at, self._counted_for = now, budgets

    def veto(self, proposal: ProposedLaunch, taken: Sequence[Take]) -> str | None:
        """Return why `proposal` may not be granted for money's sake, or None."""
        if not self._spending:
            return None
        also = (*self._asked_since.values(), *taken)
        return veto(proposal, self._spending, taken=also, now=self._clock.now())

    async def _remember_what_was_told(self, now: datetime) -> None:
        month = f"{now:%Y-%m}"
        self._told = {}
        for budget in self._counted_for:
            subject = about("budget", str(budget))
            number = 0
            while page := await self._store.events(after=number, about=subject):
                for entry in page:
                    if entry.event.facts.get("month") == month:
                        self._told[str(budget)] = Level(entry.event.facts["level"])
                number = page[-1].number
        self._told_for = (month_start(now), self._counted_for)

    def _changed(self, committed: Committed) -> None:
        if self._budgets:
            self._note_launches(committed)
        if self._budgets or self._counted_for:
            self.on_sooner()

    def _note_launches(self, committed: Committed) -> None:
        for over in committed.change.launches:
            self._asked_since.pop(over.token, None)
        for before, node in committed.moved:
            launch = node.launch
            if launch is None or (before and before.launch and before.launch.token == launch.token):
                continue
            pool = committed.after.pools.get(launch.pool)
            if pool is not None and launch.open:
                self._asked_since[launch.token] = (pool, launch.offering)


def _event(spending: Spending, level: Level, now: datetime) -> Event:
    budget = spending.budget
    return Event(
        at=now,
        about=about("budget", str(budget)),
        kind=f"budget.{level}",
        reason=f"{spending.explain(now)}; when it is spent: {budget.when_spent}",
        facts={"month": f"{now:%Y-%m}", "level": str(level)},
    )
