"""The ledger against the cloud's own bill, and budgets that act."""

from decimal import Decimal

import pytest

from navarch.app.control_plane import Opinions
from navarch.core.budget import Budget, BudgetOf, OverBudget
from navarch.core.event import about
from navarch.core.ids import PoolName
from navarch.core.records import evolve
from navarch.ports.api import CostBy
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, STORMY, a_pool

TRAINING = PoolName("training")
RED = a_pool(size=4, nodes_max=6, labels={"team": "red"})
BLUE = a_pool("batch", size=2, labels={"team": "blue"})
CENT = Decimal("0.01")


@pytest.mark.parametrize("seed", range(20))
def test_every_way_to_add_up_equals_the_clouds_bill_to_the_cent(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=4 * 3600)
        world.cloud.price_per_hour = Decimal("123.45")
        world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.clock.sleep(900)
        await world.ask(lambda fleet: fleet.scale(TRAINING, 5, reason="more"))
        world.crash()
        await world.converge()
        bill = world.cloud.bill(world.clock.now())
        for by in CostBy:
            assert world.control is not None
            report = await world.control.fleet.cost(by)
            assert abs(report.total.spent - bill) < CENT
            assert sum(line.spent for line in report.lines) == report.total.spent

    simulate(story, seed=seed, pools=[RED, BLUE], habits=STORMY, error_rate=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_spot_machines_that_are_reclaimed_are_on_the_bill_at_the_price_of_their_day(
    seed: int,
) -> None:
    spot = evolve(H100, spot=True, price_per_hour=Decimal("31.07"))
    pool = a_pool(size=4, nodes_max=6, offerings=(spot, H100))

    def cheap(world: World) -> None:
        world.cloud.spot_prices = {"h100-8x": Decimal("31.07")}

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=4 * 3600)
        world.cloud.spot_prices = {"h100-8x": Decimal("44.44")}
        for node in world.serving(TRAINING)[:2]:
            world.reclaim(node)
        world.crash()
        await world.clock.sleep(1200)
        await world.converge()
        assert world.control is not None
        report = await world.control.fleet.cost(CostBy.PROVIDER)
        assert abs(report.total.spent - world.cloud.bill(world.clock.now())) < CENT
        prices = {m.price_per_hour for m in world.cloud.machines.values() if m.request.spot}
        assert prices == {Decimal("31.07"), Decimal("44.44")}

    simulate(story, seed=seed, pools=[pool], habits=STORMY, error_rate=0.1, prepare=cheap)


def test_a_spent_budget_stops_growth_of_one_team_but_replaces_what_breaks_or_is_lost() -> None:
    budget = Budget(
        of=BudgetOf.TEAM,
        name="red",
        limit_per_month=Decimal(800),
        when_spent=OverBudget.REFUSE,
    )

    async def story(world: World) -> None:
        await world.clock.sleep(4 * 3600)
        assert len(world.nodes(TRAINING)) == 4
        world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.clock.sleep(1800)
        world.crash()
        await world.clock.sleep(1800)
        assert len(world.serving(TRAINING)) == 4, "what broke was not replaced"
        world.reclaim(world.serving(TRAINING)[0])
        await world.clock.sleep(3600)
        assert len(world.serving(TRAINING)) == 4, "what was lost was not replaced"
        await world.ask(lambda fleet: fleet.scale(TRAINING, 6, reason="more"))
        await world.ask(lambda fleet: fleet.scale(PoolName("batch"), 3, reason="more"))
        await world.clock.sleep(1800)
        assert len(world.serving(TRAINING)) == 4, "the pool grew for no money"
        assert len(world.serving(PoolName("batch"))) == 3
        assert world.control is not None
        note = (await world.control.fleet.get_pool(TRAINING)).note
        assert note.startswith("2 to be requested: h100-8x at sim"), note
        assert "the budget of team/red has no room for an hour of it" in note
        events = await world.store.events(about=about("budget", "team/red"))
        assert [entry.event.kind for entry in events] == ["budget.near", "budget.spent"]

    simulate(story, seed=3, pools=[RED, BLUE], opinions=Opinions(budgets=[budget]))


def test_no_more_nodes_are_requested_at_once_than_the_budget_covers_for_an_hour() -> None:
    budget = Budget(
        of=BudgetOf.POOL,
        name="training",
        limit_per_month=Decimal(250),
        when_spent=OverBudget.REFUSE,
    )

    async def story(world: World) -> None:
        await world.clock.sleep(600)
        assert len(world.nodes(TRAINING)) == 2

    simulate(story, seed=3, pools=[RED], opinions=Opinions(budgets=[budget]))


def test_a_generous_budget_changes_nothing() -> None:
    budget = Budget(of=BudgetOf.FLEET, limit_per_month=Decimal(10**9), when_spent=OverBudget.REFUSE)

    async def story(world: World) -> None:
        await world.clock.sleep(3600)

    with_budget = simulate(story, seed=4, pools=[RED], opinions=Opinions(budgets=[budget]))
    without = simulate(story, seed=4, pools=[evolve(RED)])
    assert with_budget.trace == without.trace
