"""Budgets: counts what is spent, and alerts people before a budget is used up."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from navarch.control.pools.ledger import Ledger
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.journal import read_journal
from navarch.core.budget import Budget, month_start
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import Token
from navarch.fleet.money.budgets import Level, Spending, levels_reached, veto
from navarch.fleet.selection import ProposedLaunch, Take
from navarch.ports.clock import Clock
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.store import Committed, Store

ALL_BUDGETS = "all budgets"

COUNT_EVERY = timedelta(minutes=1)
"""Between counts. In between, the machines of the last count are assumed to run on."""


class BudgetController(Controller):
    """Counts spending for every budget, and vetoes launches that would exceed one."""

    name = "budgets"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        budgets: Sequence[Budget],
        ledger: Ledger,
        metrics: Metrics | None = None,
    ) -> None:
        """`budgets` is read in every round: a reload may change its content."""
        super().__init__(clock, store, [ALL_BUDGETS])
        self._budgets = budgets
        self._ledger = ledger
        self._spending: tuple[Spending, ...] = ()
        self._launched_since: dict[Token, Take] = {}
        """Launches committed after the last count."""
        self._counted_at: datetime | None = None
        self._counted_for: tuple[Budget, ...] = ()
        self._reported: dict[str, Level] = {}
        self._reported_for: tuple[datetime, tuple[Budget, ...]] | None = None
        self._declare(metrics or NoMetrics())

    def _declare(self, metrics: Metrics) -> None:
        def gauge(name: str, description: str, value: Callable[[Spending], Decimal]) -> None:
            def read() -> Mapping[tuple[str, ...], float]:
                return {(str(each.budget),): float(value(each)) for each in self._spending}

            metrics.computed_gauge(name, description, read, labels=("budget",))

        now = self._clock.now
        gauge(
            "navarch_budget_limit_month",
            "The limit of a budget for a calendar month.",
            lambda each: each.budget.limit_per_month,
        )
        gauge(
            "navarch_budget_spent_month",
            "What is spent of a budget this month.",
            lambda each: each.spent(now()),
        )
        gauge(
            "navarch_budget_forecast_month",
            "What will be spent of a budget at the end of the month if nothing changes.",
            lambda each: each.forecast(now()),
        )

    @property
    def spending(self) -> Sequence[Spending]:
        """The last count of every budget."""
        return self._spending

    def on_commit(self, committed: Committed) -> None:
        """Note new launches, and queue the budgets: what is spent has changed."""
        if not self._budgets and not self._counted_for:
            return
        self.queue.add(ALL_BUDGETS)
        for over in committed.change.launches:
            self._launched_since.pop(over.token, None)
        for before, node in committed.moved:
            launch = node.launch
            if launch is None or (before and before.launch and before.launch.token == launch.token):
                continue
            pool = committed.after.pools.get(launch.pool)
            if pool is not None and launch.open:
                self._launched_since[launch.token] = (pool, launch.offering)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Count, and record which budgets are nearly or wholly spent."""
        now = self._clock.now()
        self.queue.add_at(ALL_BUDGETS, now + COUNT_EVERY)
        await self.count(now)
        if not self._counted_for:
            return
        if self._reported_for != (month_start(now), self._counted_for):
            await self._read_reported(now)
        reached = levels_reached(self._spending, self._reported, now=now)
        if reached:
            events = [_event(spending, level, now) for spending, level in reached]
            await self._store.commit(Change(events=events), based_on=self._store.fleet().revision)
            self._reported |= {str(spending.budget): level for spending, level in reached}

    async def count(self, now: datetime) -> None:
        """Update the count, unless it is recent and for the same budgets."""
        budgets = tuple(self._budgets)
        lately = self._counted_at is not None and now < self._counted_at + COUNT_EVERY
        if lately and budgets == self._counted_for:
            return
        # Before the count: launches that are committed while the books are read count as well.
        self._launched_since = {}
        self._spending = await self._ledger.spendings(budgets, now=now)
        self._counted_at, self._counted_for = now, budgets

    def veto(self, proposal: ProposedLaunch, taken: Sequence[Take]) -> str | None:
        """Return why a budget forbids `proposal`, or None."""
        if not self._spending:
            return None
        also = (*self._launched_since.values(), *taken)
        return veto(proposal, self._spending, taken=also, now=self._clock.now())

    async def _read_reported(self, now: datetime) -> None:
        month = f"{now:%Y-%m}"
        self._reported = {}
        for budget in self._counted_for:
            for entry in await read_journal(self._store, about=about("budget", str(budget))):
                if entry.event.facts.get("month") == month:
                    self._reported[str(budget)] = Level(entry.event.facts["level"])
        self._reported_for = (month_start(now), self._counted_for)


def _event(spending: Spending, level: Level, now: datetime) -> Event:
    budget = spending.budget
    return Event(
        at=now,
        about=about("budget", str(budget)),
        kind=f"budget.{level}",
        reason=f"{spending.explain(now)}; when it is spent: {budget.when_spent}",
        facts={"month": f"{now:%Y-%m}", "level": str(level)},
    )
