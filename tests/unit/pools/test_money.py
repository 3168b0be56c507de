"""What machines have cost, what the month will, and what may not be bought any more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from navarch.core.budget import Budget, BudgetOf, OverBudget
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.fleet.money.budgets import Level, Spending, levels_reached, spendings, veto
from navarch.fleet.money.forecast import forecast, month_end, month_start
from navarch.fleet.money.ledger import Account, accounts
from navarch.fleet.reality import bought
from navarch.ports.api import CostBy
from navarch.service.costs import cost_report
from navarch.testing.worlds import H100, a_pool

NOW = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEN = Decimal(10)


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


@pytest.mark.parametrize(
    ("by", "names"),
    [(CostBy.POOL, ["batch", "training"]), (CostBy.TEAM, ["", "red"]), (CostBy.PROVIDER, ["sim"])],
)
def test_a_report_adds_up_by_pool_team_or_provider(by: CostBy, names: list[str]) -> None:
    launches = [a_launch("a"), a_launch("b", pool="batch", team="")]
    report = cost_report(launches, [], by=by, since=None, now=NOW)
    assert [line.name for line in report.lines] == names
    assert report.total.spent == sum(line.spent for line in report.lines) == Decimal(40)
    assert report.since == datetime(2026, 3, 1, tzinfo=UTC)


def test_the_price_is_frozen_when_the_machine_is_bought() -> None:
    listed = Instance(
        id=InstanceId("i-1"),
        provider=ProviderName("sim"),
        status=InstanceStatus.RUNNING,
        instance_type="h100-8x",
        launched_at=NOW,
        price_per_hour=Decimal(7),
    )
    asked = replace(a_launch(), instance=None, launched_at=None)
    first = bought(asked, listed, now=NOW)
    later = bought(first, replace(listed, price_per_hour=Decimal(99)), now=NOW)
    assert first.price_per_hour == later.price_per_hour == Decimal(7)


@pytest.mark.parametrize(
    ("now", "end"),
    [
        (datetime(2026, 3, 31, 23, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)),
        (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (datetime(2028, 2, 29, 5, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)),
    ],
)
def test_a_month_ends_where_the_next_begins(now: datetime, end: datetime) -> None:
    assert month_end(now) == end
    assert month_start(end) == end


def test_the_forecast_lets_what_runs_run_to_the_end_of_the_month() -> None:
    last_day = datetime(2026, 3, 31, 12, tzinfo=UTC)
    assert forecast(Decimal(100), TEN, last_day) == Decimal(220)


def a_budget(limit: int, **settings: object) -> Budget:
    return Budget(
        **{"of": BudgetOf.FLEET, "limit_per_month": Decimal(limit), **settings}  # type: ignore[arg-type]
    )


def spending(budget: Budget, *launches: Launch) -> Spending:
    (found,) = spendings([budget], launches, now=NOW)
    return found


@pytest.mark.parametrize(
    ("limit", "level"), [(100_000, Level.FINE), (3_000, Level.NEAR), (24, Level.SPENT)]
)
def test_a_budget_is_fine_near_or_spent(limit: int, level: Level) -> None:
    assert spending(a_budget(limit), a_launch()).level(NOW) is level


def test_people_are_told_of_each_level_once() -> None:
    near = spending(a_budget(3_000), a_launch())
    assert [level for _, level in levels_reached([near], {}, now=NOW)] == [Level.NEAR]
    assert levels_reached([near], {"fleet": Level.NEAR}, now=NOW) == []
    assert levels_reached([near], {"fleet": Level.SPENT}, now=NOW) == []


@pytest.mark.parametrize("when_spent", list(OverBudget))
def test_a_spent_budget_warns_downgrades_or_refuses(when_spent: OverBudget) -> None:
    spot = replace(H100, spot=True)
    pool = a_pool(size=1, offerings=(H100, spot))
    spent = spending(a_budget(1, when_spent=when_spent), a_launch())
    vetoed = [x.spot for x in pool.offerings if veto(pool, x, [spent], now=NOW)]
    expected = {OverBudget.WARN: [], OverBudget.DOWNGRADE: [False]}
    assert vetoed == expected.get(when_spent, [False, True])


def test_a_pool_without_spot_machines_is_downgraded_to_its_cheapest() -> None:
    cheap = replace(H100, price_per_hour=Decimal(50))
    pool = a_pool(size=1, offerings=(H100, cheap))
    spent = spending(a_budget(1, when_spent=OverBudget.DOWNGRADE), a_launch())
    assert [x for x in pool.offerings if not veto(pool, x, [spent], now=NOW)] == [cheap]


def test_a_budget_holds_nobody_elses_spending() -> None:
    refuse = OverBudget.REFUSE
    red = a_budget(1, of=BudgetOf.TEAM, name="red", when_spent=refuse)
    batch = a_budget(1, of=BudgetOf.POOL, name="batch", when_spent=refuse)
    blue_pool = a_pool(size=1, labels={"team": "blue"})
    red_pool = a_pool(size=1, labels={"team": "red"})
    spent = [spending(red, a_launch()), spending(batch, a_launch())]
    assert veto(blue_pool, H100, spent, now=NOW) is None
    assert veto(red_pool, H100, spent, now=NOW) == (
        "the budget of team/red is spent: 20.00 of 1.00 spent this month, "
        "3,740.00 by its end if nothing changes"
    )
