"""The ledger: what every machine has cost, read once and then updated with each commit."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal

from navarch.core.budget import Budget, month_start
from navarch.core.errors import StoreError
from navarch.core.ids import PoolName
from navarch.core.launch import Launch
from navarch.fleet.money.books import ZERO, Account, Books, account
from navarch.fleet.money.budgets import Spending, spendings
from navarch.ports.api import CostBy
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

PAGE = 1_000
"""How many launches are read at a time: heartbeats wait while they are entered."""

SETTLE_EVERY = timedelta(hours=1)


class Ledger:
    """Adds up what machines have cost. The first query reads the store, later ones do not."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._books = Books()
        self._reading = asyncio.Lock()
        self._read = False
        self._meanwhile: list[Launch] = []
        self._settled_at = clock.now()

    async def accounts(
        self, by: CostBy, *, since: datetime | None, until: datetime
    ) -> Mapping[str, Account]:
        """Return what each group has cost from `since` to `until`, by the group's name."""
        await self._ensure_read()
        return self._books.accounts(by, self._living(), since=since, until=until)

    async def spendings(self, budgets: Iterable[Budget], *, now: datetime) -> tuple[Spending, ...]:
        """Return each budget with what was spent of it this month."""
        held = tuple(budgets)
        if not held:
            return ()
        since = month_start(now)
        by_pool = await self.accounts(CostBy.POOL, since=since, until=now)
        by_team = await self.accounts(CostBy.TEAM, since=since, until=now)
        asked = [launch for launch in self._living() if launch.open]
        return spendings(held, by_pool, by_team, asked, now=now)

    def without_nodes(self, now: datetime) -> Mapping[PoolName, Decimal] | None:
        """Return what machines that are gone, and orphans, have cost each pool this month.

        None until the store was read. The caller adds up the machines of nodes.
        """
        if not self._read:
            return None
        since, nodes = month_start(now), self._store.fleet().nodes
        found = {
            PoolName(name): entry.spent
            for name, entry in self._books.ended(CostBy.POOL, since=since, until=now).items()
        }
        for launch in self._books.running:
            node = nodes.get(launch.node)
            if node is not None and node.launch and node.launch.token == launch.token:
                continue
            ran = account(launch, since=since, until=now)
            if ran is not None:
                found[launch.pool] = found.get(launch.pool, ZERO) + ran.spent
        return found

    async def read(self) -> None:
        """Read the store ahead of the first query; if it is away, that query reads it."""
        with suppress(StoreError):
            await self._ensure_read()

    async def _ensure_read(self) -> None:
        async with self._reading:
            if self._read:
                return
            books = Books()
            after: Launch | None = None
            while page := await self._store.launches(after=after, limit=PAGE):
                for launch in page:
                    books.note(launch)
                after = page[-1]
            # A launch that was committed meanwhile may sort before the last page.
            for launch in self._meanwhile:
                books.note(launch)
            self._meanwhile = []
            self._books, self._read = books, True

    def _living(self) -> list[Launch]:
        nodes = self._store.fleet().nodes.values()
        return [node.launch for node in nodes if node.launch and not node.gone]

    def on_commit(self, committed: Committed) -> None:
        """Add the launches that a commit ended."""
        if not self._read:
            self._meanwhile += committed.change.launches
            return
        for launch in committed.change.launches:
            self._books.note(launch)
        now = self._clock.now()
        if now >= self._settled_at + SETTLE_EVERY:
            self._settled_at = now
            self._books.settle(now)
