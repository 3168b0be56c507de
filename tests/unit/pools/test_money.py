"""Costs, forecasts and budgets."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.exposition import values_of
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.fleet_metrics import fleet_exposition
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.ledger import Ledger
from navarch.core.budget import Budget, BudgetOf, OverBudget, month_start
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.fleet.instance_state import bought
from navarch.fleet.money.books import (
    SETTLED_AFTER,
    Account,
    Books,
    account,
    forecast,
    month_end,
)
from navarch.fleet.money.budgets import Level, Spending, levels_reached, spendings, veto
from navarch.fleet.selection import ProposedLaunch
from navarch.ports.api import CostBy, CostReport
from navarch.service.offers import cost_report
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, ControllerDriver, a_node, a_pool

NOW = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEN = Decimal(10)


def accounts(
    launches: Iterable[Launch],
    group: Callable[[Launch], str],
    *,
    since: datetime | None = None,
    until: datetime,
) -> Mapping[str, Account]:
    """Return the cost of each group from `since` to `until`, by the group's name."""
    found: dict[str, Account] = {}
    for launch in launches:
        entry = account(launch, since=since, until=until)
        if entry is not None:
            name = group(launch)
            found[name] = found.get(name, Account()) + entry
    return dict(sorted(found.items()))


def a_launch(
    name: str = "a",
    *,
    began: datetime = NOW - 2 * HOUR,
    ended: datetime | None = None,
    pool: str = "training",
    team: str = "red",
    price: Decimal = TEN,
) -> Launch:
    return Launch(
        token=Token(f"launch-{name}"),
        node=NodeId(name),
        pool=PoolName(pool),
        team=team,
        offering=H100,
        asked_at=began,
        instance=InstanceId(f"i-{name}"),
        price_per_hour=price,
        launched_at=began,
        ended_at=ended,
    )


def test_only_the_part_within_the_window_is_counted() -> None:
    launches = [
        a_launch("before", began=NOW - 9 * HOUR, ended=NOW - 8 * HOUR),
        a_launch("across", began=NOW - 6 * HOUR, ended=NOW - 4 * HOUR),
        a_launch("running", began=NOW - 2 * HOUR),
    ]
    (account,) = accounts(
        launches, lambda launch: launch.pool, since=NOW - 5 * HOUR, until=NOW
    ).values()
    assert account == Account(
        machines=2, running=1, machine_time=3 * HOUR, spent=Decimal(30), per_hour=TEN
    )


async def _report(launches: list[Launch], by: CostBy) -> CostReport:
    store = MemoryStore(Cluster(id="c", secret=b"s"))
    await store.commit(Change(launches=launches), based_on=0)
    return await cost_report(Ledger(SimClock(), store), [], by=by, since=None, now=NOW)


MOMENTS = st.integers(-2_000_000_000_000, 2_000_000_000_000).map(
    lambda us: NOW + timedelta(microseconds=us)
)
LAUNCHES = st.builds(
    lambda name, began, lasted, pool, team, price: a_launch(
        str(name),
        began=began,
        ended=None if lasted is None else began + timedelta(microseconds=lasted),
        pool=pool,
        team=team,
        price=price,
    ),
    st.integers(0, 9),
    MOMENTS,
    st.none() | st.integers(0, 3_000_000_000_000),
    st.sampled_from(["p", "q"]),
    st.sampled_from(["", "red", "blue"]),
    st.sampled_from([Decimal("0.333333"), Decimal("98.32"), TEN]),
)


@given(st.lists(LAUNCHES, max_size=30), st.none() | MOMENTS, MOMENTS)
def test_incremental_totals_equal_the_sum_of_all_launches(
    launches: list[Launch], since: datetime | None, until: datetime
) -> None:
    books = Books()
    newest: dict[Token, Launch] = {}
    for launch in launches:
        # An end is final: of one machine, only its end can change.
        if launch.token not in newest or newest[launch.token].ended_at is None:
            newest[launch.token] = launch
            books.note(launch)
    for by, name in (
        (CostBy.POOL, lambda x: x.pool),
        (CostBy.TEAM, lambda x: x.team),
        (CostBy.PROVIDER, lambda x: x.offering.provider),
    ):
        expected = accounts(newest.values(), name, since=since, until=until)
        found = books.accounts(by, [], since=since, until=until)
        assert {k: (v.machines, v.machine_time, v.per_hour) for k, v in found.items()} == {
            k: (v.machines, v.machine_time, v.per_hour) for k, v in expected.items()
        }
        assert all(abs(found[k].spent - expected[k].spent) < Decimal("1e-9") for k in expected)


def test_a_machine_that_is_recorded_twice_counts_once_even_after_its_node_was_deleted() -> None:
    books = Books()
    over = a_launch(ended=NOW - HOUR)
    books.note(evolve(over, ended_at=None))
    books.note(over)
    books.note(over)
    (once,) = books.accounts(CostBy.POOL, [over], since=None, until=NOW).values()
    books.settle(NOW + SETTLED_AFTER + HOUR)
    (still,) = books.accounts(CostBy.POOL, [], since=None, until=NOW).values()
    assert len(books) == once.machines == still.machines == 1
    assert once.spent == still.spent == TEN


async def _two_reports() -> tuple[CostReport, CostReport, int]:
    class CountingStore(MemoryStore):
        reads = 0

        async def launches(self, **filters: object) -> list[Launch]:
            CountingStore.reads += 1
            return list(await super().launches(**filters))  # type: ignore[arg-type]

    store = CountingStore(Cluster(id="c", secret=b"s"))
    ledger = Ledger(SimClock(), store)
    store.subscribe(ledger.on_commit)
    await store.commit(Change(launches=[a_launch("a", ended=NOW - HOUR)]), based_on=0)
    first = await cost_report(ledger, [], by=CostBy.POOL, since=None, now=NOW)
    reads = CountingStore.reads
    running = evolve(a_node("n"), launch=a_launch("n"))
    later = Change(launches=[a_launch("b", ended=NOW)], nodes=[running])
    await store.commit(later, based_on=1)
    second = await cost_report(ledger, [], by=CostBy.POOL, since=None, now=NOW)
    return first, second, CountingStore.reads - reads


def test_the_ledger_is_read_once_and_then_updated() -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        first, second, reads = runner.run(_two_reports())
    assert first.total.spent == TEN
    assert (second.total.spent, second.total.machines, second.total.running) == (TEN * 5, 3, 1)
    assert reads == 0


@pytest.mark.parametrize(
    ("by", "names"),
    [(CostBy.POOL, ["batch", "training"]), (CostBy.TEAM, ["", "red"]), (CostBy.PROVIDER, ["sim"])],
)
def test_a_report_adds_up_by_pool_team_or_provider(by: CostBy, names: list[str]) -> None:
    launches = [a_launch("a"), a_launch("b", pool="batch", team="")]
    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        report = runner.run(_report(launches, by))
    assert [line.name for line in report.lines] == names
    assert report.total.spent == sum(line.spent for line in report.lines) == Decimal(40)
    assert report.since == datetime(2026, 3, 1, tzinfo=UTC)


def test_the_price_is_fixed_at_launch() -> None:
    listed = Instance(
        id=InstanceId("i-1"),
        provider=ProviderName("sim"),
        status=InstanceStatus.RUNNING,
        instance_type="h100-8x",
        launched_at=NOW,
        price_per_hour=Decimal(7),
    )
    asked = evolve(a_launch(), instance=None, launched_at=None)
    first = bought(asked, listed, now=NOW)
    later = bought(first, evolve(listed, price_per_hour=Decimal(99)), now=NOW)
    assert first.price_per_hour == later.price_per_hour == Decimal(7)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        (datetime(2026, 3, 31, 23, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)),
        (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (datetime(2028, 2, 29, 5, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)),
    ],
)
def test_a_month_ends_when_the_next_begins(now: datetime, end: datetime) -> None:
    assert month_end(now) == end
    assert month_start(end) == end


def test_the_forecast_assumes_that_running_machines_run_to_the_end_of_the_month() -> None:
    last_day = datetime(2026, 3, 31, 12, tzinfo=UTC)
    assert forecast(Decimal(100), TEN, last_day) == Decimal(220)


def a_budget(limit: int, **settings: object) -> Budget:
    return Budget(
        **{"of": BudgetOf.FLEET, "limit_per_month": Decimal(limit), **settings}  # type: ignore[arg-type]
    )


def spending(budget: Budget, *launches: Launch) -> Spending:
    month = {"since": month_start(NOW), "until": NOW}
    by_pool = accounts(launches, lambda launch: launch.pool, **month)
    by_team = accounts(launches, lambda launch: launch.team, **month)
    asked = [launch for launch in launches if launch.open]
    (found,) = spendings([budget], by_pool, by_team, asked, now=NOW)
    return found


@pytest.mark.parametrize(
    ("limit", "level"), [(100_000, Level.FINE), (3_000, Level.NEAR), (24, Level.SPENT)]
)
def test_a_budget_is_ok_near_its_limit_or_spent(limit: int, level: Level) -> None:
    assert spending(a_budget(limit), a_launch()).level(NOW) is level


def test_each_level_raises_one_alert() -> None:
    near = spending(a_budget(3_000), a_launch())
    assert [level for _, level in levels_reached([near], {}, now=NOW)] == [Level.NEAR]
    assert levels_reached([near], {"fleet": Level.NEAR}, now=NOW) == []
    assert levels_reached([near], {"fleet": Level.SPENT}, now=NOW) == []


@pytest.mark.parametrize("when_spent", list(OverBudget))
def test_a_spent_budget_warns_downgrades_or_refuses(when_spent: OverBudget) -> None:
    spot = evolve(H100, spot=True)
    pool = a_pool(size=1, offerings=(H100, spot))
    spent = spending(a_budget(1, when_spent=when_spent), a_launch())
    vetoed = [
        x.spot
        for x in pool.offerings
        if veto(ProposedLaunch(pool=pool, offering=x), [spent], now=NOW)
    ]
    expected = {OverBudget.WARN: [], OverBudget.DOWNGRADE: [False]}
    assert vetoed == expected.get(when_spent, [False, True])


def test_a_pool_without_spot_machines_is_downgraded_to_its_cheapest() -> None:
    cheap = evolve(H100, price_per_hour=Decimal(50))
    pool = a_pool(size=1, offerings=(H100, cheap))
    spent = spending(a_budget(1, when_spent=OverBudget.DOWNGRADE), a_launch())
    assert [
        x
        for x in pool.offerings
        if not veto(ProposedLaunch(pool=pool, offering=x), [spent], now=NOW)
    ] == [cheap]


def test_a_budget_limits_only_the_spending_it_covers() -> None:
    refuse = OverBudget.REFUSE
    red = a_budget(1, of=BudgetOf.TEAM, name="red", when_spent=refuse)
    batch = a_budget(1, of=BudgetOf.POOL, name="batch", when_spent=refuse)
    blue_pool = a_pool(size=1, labels={"team": "blue"})
    red_pool = a_pool(size=1, labels={"team": "red"})
    spent = [spending(red, a_launch()), spending(batch, a_launch())]
    assert veto(ProposedLaunch(pool=blue_pool, offering=H100), spent, now=NOW) is None
    assert veto(ProposedLaunch(pool=red_pool, offering=H100), spent, now=NOW) == (
        "the budget of team/red has no room for an hour of it: 20.00 of 1.00 spent this month, "
        "and with it everything would cost 108.32 an hour"
    )


@pytest.mark.parametrize(
    ("cost_before", "when_spent", "granted"),
    [
        (H100.price_per_hour, OverBudget.REFUSE, True),
        (H100.price_per_hour - 1, OverBudget.REFUSE, False),
        (None, OverBudget.REFUSE, False),
        (H100.price_per_hour, OverBudget.DOWNGRADE, False),
        (None, OverBudget.WARN, True),
    ],
)
def test_a_spent_budget_still_allows_replacements_of_the_same_price(
    cost_before: Decimal | None, when_spent: OverBudget, granted: bool
) -> None:
    spot = evolve(H100, spot=True, price_per_hour=TEN)
    pool = a_pool(size=1, offerings=(spot, H100))
    spent = spending(a_budget(1, when_spent=when_spent), a_launch())
    proposal = ProposedLaunch(pool=pool, offering=H100, instead_of=cost_before)
    assert (veto(proposal, [spent], now=NOW) is None) is granted


def test_commits_make_a_count_due_only_while_a_budget_exists_or_existed() -> None:
    clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
    budgets: list[Budget] = []

    async def is_queued(loop: ControllerDriver[BudgetController]) -> bool:
        await store.commit(Change(nodes=[a_node("a")]), based_on=store.fleet().revision)
        return loop.due_at() == clock.now()

    async def story() -> None:
        ledger = Ledger(clock, store)
        store.subscribe(ledger.on_commit)
        controller = BudgetController(clock, store, budgets, ledger)
        loop = ControllerDriver(clock, store, controller)
        await loop.reconcile()
        assert not await is_queued(loop)
        budgets.append(Budget(of=BudgetOf.FLEET, limit_per_month=TEN))
        assert await is_queued(loop), "a reload has brought one"
        await loop.reconcile()
        budgets.clear()
        assert await is_queued(loop), "a reload has taken it away, and the count does not know"
        await loop.reconcile()
        assert not await is_queued(loop)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def test_the_exposed_spend_of_the_month_equals_the_cost_report() -> None:
    """Machines of nodes, machines that are gone, an orphan, and one that a node has adopted."""
    last_month = month_start(NOW) - 30 * HOUR
    adopted = a_launch("adopted", began=last_month)
    nodes = [
        evolve(a_node("n", "training"), launch=a_launch("n")),
        evolve(a_node("old", "batch"), launch=a_launch("old", began=last_month, pool="batch")),
        evolve(a_node("adopted", "training"), launch=adopted),
    ]
    launches = [
        a_launch("gone", ended=NOW - HOUR),
        a_launch("across", began=last_month, ended=month_start(NOW) + 5 * HOUR),
        a_launch("before", began=last_month, ended=month_start(NOW) - HOUR),
        a_launch("orphan", pool="batch"),
        a_launch("deleted", pool="deleted", ended=NOW),
        adopted,
    ]

    async def story() -> tuple[str, CostReport]:
        store = MemoryStore(Cluster(id="c", secret=b"s"))
        ledger = Ledger(SimClock(), store)
        store.subscribe(ledger.on_commit)
        assert ledger.without_nodes(NOW) is None, "unknown before the store was read"
        await ledger.read()
        pools = [a_pool(), a_pool("batch")]
        await store.commit(Change(nodes=nodes, launches=launches, pools=pools), based_on=0)
        slices = fleet_exposition(store.fleet(), now=NOW, spent=ledger.without_nodes(NOW))
        report = await cost_report(ledger, [], by=CostBy.POOL, since=month_start(NOW), now=NOW)
        return b"".join(slices).decode(), report

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        text, report = runner.run(story())
    exposed = values_of(text, "navarch_pool_spend_month")
    lines = {line.name: float(line.spent) for line in report.lines}
    assert exposed == pytest.approx(
        {("training",): lines["training"], ("batch",): lines["batch"], ("-deleted",): 20.0}
    )


def test_budgets_are_exposed_with_their_limit_and_spending() -> None:
    metrics = RecordingMetrics()
    budgets = [a_budget(3_000), a_budget(500, of=BudgetOf.TEAM, name="red")]

    def read(name: str, budget: str) -> float:
        return metrics.value(f"navarch_budget_{name}_month", budget=budget)

    async def story() -> None:
        clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"s"))
        controller = BudgetController(clock, store, budgets, Ledger(clock, store), metrics)
        running = a_launch("n", began=clock.now(), team="red")
        await store.commit(Change(nodes=[evolve(a_node("n"), launch=running)]), based_on=0)
        await ControllerDriver(clock, store, controller).reconcile()
        await clock.sleep(3600)
        assert (read("limit", "fleet"), read("limit", "team/red")) == (3_000, 500)
        assert read("spent", "fleet") == read("spent", "team/red") == 10
        assert read("forecast", "fleet") == 31 * 24 * 10

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())
