"""The budget reconciler: keeps count of what is spent, and tells people before it is too much."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from navarch.core.budget import Budget
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import Token
from navarch.core.launch import Launch
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.fleet.money.budgets import Level, Spending, levels_reached, spendings, veto
from navarch.fleet.money.forecast import month_start
from navarch.fleet.money.ledger import entries
from navarch.fleet.selection import Take
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

COUNT_EVERY = timedelta(minutes=1)
"""Between counts. In between, what ran at the last count is taken to run on."""


class BudgetReconciler:
    """Counts spending for every budget; planners ask it before they buy."""

    name = "budgets"

    def __init__(self, clock: Clock, store: Store, budgets: Sequence[Budget]) -> None:
        self._clock = clock
        self._store = store
        self._budgets = tuple(budgets)
        self._past: dict[tuple[Token, str], Launch] | None = None
        self._newly_over: list[Launch] = []
        self._spending: tuple[Spending, ...] = ()
        self._asked_since: dict[Token, Take] = {}
        """Launches written down after the last count."""
        self._counted_at: datetime | None = None
        self._told: dict[str, Level] = {}
        self._told_in: datetime | None = None
        if self._budgets:
            store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Count, and write down which budgets are nearly or wholly spent."""
        if not self._budgets:
            return None
        now = self._clock.now()
        await self.count(now)
        if self._told_in != month_start(now):
            await self._remember_what_was_told(now)
        reached = levels_reached(self._spending, self._told, now=now)
        if reached:
            events = [_event(spending, level, now) for spending, level in reached]
            await self._store.commit(Change(events=events), based_on=self._store.fleet().revision)
            self._told |= {str(spending.budget): level for spending, level in reached}
        return now + COUNT_EVERY

    async def count(self, now: datetime) -> None:
        """Bring the count up to date, unless it was taken lately."""
        if not self._budgets or (self._counted_at and now < self._counted_at + COUNT_EVERY):
            return
        if self._past is None:
            past = await self._store.launches()
            self._past = {(launch.token, launch.instance or ""): launch for launch in past}
        self._past |= {(x.token, x.instance or ""): x for x in self._newly_over}
        self._newly_over = []
        since = month_start(now)
        self._past = {
            key: launch
            for key, launch in self._past.items()
            if launch.launched_at and (launch.ended_at is None or launch.ended_at >= since)
        }
        fleet = self._store.fleet()
        asked = [x.launch for x in fleet.nodes.values() if x.launch and x.launch.open]
        known = [*entries(self._past.values(), fleet), *asked]
        self._asked_since = {}
        self._spending = spendings(self._budgets, known, now=now)
        self._counted_at = now

    def veto(self, pool: Pool, offering: Offering, taken: Sequence[Take]) -> str | None:
        """Return why `pool` may not buy `offering` for money's sake, or None."""
        if not self._spending:
            return None
        also = (*self._asked_since.values(), *taken)
        return veto(pool, offering, self._spending, taken=also, now=self._clock.now())

    async def _remember_what_was_told(self, now: datetime) -> None:
        month = f"{now:%Y-%m}"
        self._told = {}
        for budget in self._budgets:
            subject = about("budget", str(budget))
            number = 0
            while page := await self._store.events(after=number, about=subject):
                for entry in page:
                    if entry.event.facts.get("month") == month:
                        self._told[str(budget)] = Level(entry.event.facts["level"])
                number = page[-1].number
        self._told_in = month_start(now)

    def _changed(self, committed: Committed) -> None:
        self._newly_over += committed.change.launches
        for over in committed.change.launches:
            self._asked_since.pop(over.token, None)
        for node in committed.change.nodes:
            before = committed.before.nodes.get(node.id)
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
