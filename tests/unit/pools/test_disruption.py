"""Voluntary disruption: reasons, budgets and windows."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from navarch.core.disruption import Cause, Disruption, DisruptionBudget, window
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.replacement import CLOSED, Gangs, plan_replacements
from navarch.fleet.disruption.spot_notice import plan_notices
from navarch.fleet.drains import plan_drains
from navarch.fleet.jobs.gangs import nodes_by_gang
from navarch.fleet.plan import Cordon, Request, Retire
from navarch.fleet.planner import plan_pool
from navarch.testing.worlds import H100, NOW, a_job, a_node, a_pool

HOUR = timedelta(hours=1)
OLD = Disruption(lifetime_max=timedelta(minutes=30))
MANY = DisruptionBudget(nodes_max=99)


def a_condition(check: str) -> Condition:
    return Condition(check=check, health=Health.DEGRADED, reason="soon", since=NOW)


def nodes(count: int) -> list[Node]:
    return [a_node(f"training-{i}") for i in range(count)]


def begun(pool: Pool, known: list[Node]) -> list[str]:
    return [x.node for x in plan_replacements(pool, known, for_sale=None, now=NOW).begin]


def retired(pool: Pool, known: list[Node]) -> list[tuple[str, bool]]:
    found = plan_replacements(pool, known, for_sale=None, now=NOW).retire
    return [(retire.node, retire.surplus) for retire in found]


def test_old_nodes_are_replaced_one_at_a_time_oldest_first() -> None:
    known = nodes(3)
    known[1] = evolve(known[1], created_at=NOW - 5 * HOUR)
    assert begun(a_pool(size=3, disruption=OLD), known) == ["training-1"]
    assert begun(a_pool(size=3), known) == []


def test_a_large_pool_may_replace_a_tenth_at_once() -> None:
    assert len(begun(a_pool(size=40, nodes_max=50, disruption=OLD), nodes(40))) == 4


def test_broken_nodes_use_the_budget() -> None:
    known = nodes(3)
    known[0] = evolve(known[0], health=Health.UNHEALTHY)
    assert begun(a_pool(size=3, disruption=OLD), known) == []
    known[0] = a_node("training-0", retiring=Retirement(reason="XID 79"))
    assert begun(a_pool(size=3, disruption=OLD), known) == []


def test_nodes_removed_by_shrinking_do_not_use_the_budget() -> None:
    known = nodes(3)
    known[0] = a_node("training-0", retiring=Retirement(reason="fewer", surplus=True))
    assert begun(a_pool(size=2, disruption=OLD), known) == ["training-1"]


def test_a_node_stays_until_its_successor_is_in_service() -> None:
    pool = a_pool(size=2, nodes_max=4, disruption=OLD)
    booting = a_node("new", phase=Phase.BOOTING, since=NOW, replaces="training-0")
    assert retired(pool, [*nodes(2), booting]) == []
    assert begun(pool, [*nodes(2), booting]) == []
    serving = a_node("new", replaces="training-0", created_at=NOW)
    assert retired(pool, [*nodes(2), serving]) == [("training-0", False)]


def test_a_paused_pool_starts_no_replacement() -> None:
    pool = a_pool(size=3, disruption=OLD)
    assert begun(pool, nodes(3)) == ["training-0"]
    assert begun(evolve(pool, held="a driver is suspected"), nodes(3)) == []


def test_a_successor_is_removed_when_the_reason_no_longer_applies() -> None:
    serving = a_node("new", replaces="training-0", created_at=NOW)
    assert retired(a_pool(size=2, nodes_max=4), [*nodes(2), serving]) == [("new", True)]


def test_a_node_drifts_when_its_pool_no_longer_lists_its_kind() -> None:
    elsewhere = (evolve(H100, zone="other"),)
    strict = Disruption(replace_drifted=True, budgets=(MANY,))
    assert begun(a_pool(size=2, offerings=elsewhere, disruption=strict), nodes(2)) == [
        "training-0",
        "training-1",
    ]
    dearer = (evolve(H100, price_per_hour=Decimal(999)),)
    assert begun(a_pool(size=2, offerings=dearer, disruption=strict), nodes(2)) == []


def test_a_node_drifts_when_its_pool_has_other_user_data() -> None:
    strict = Disruption(replace_drifted=True, budgets=(MANY,))
    before = a_pool(size=1, user_data="mount /data")
    after = evolve(before, user_data="mount /scratch", disruption=strict)
    assert before.setup_digest != after.setup_digest
    digests = {
        "old": before.setup_digest,
        "new": after.setup_digest,
        "nothing": "",
        "before-it-was-noted": None,
    }
    known = []
    for name, digest in digests.items():
        node = a_node(name)
        assert node.launch is not None
        known.append(evolve(node, launch=evolve(node.launch, setup_digest=digest)))
    assert begun(after, known) == ["old", "nothing"]
    assert begun(evolve(after, disruption=Disruption()), known) == []


WITH_SETUP = MachineSetup(user_data="mount /data", image="ubuntu-1")


@pytest.mark.parametrize("changed", [{"user_data": "mount /scratch"}, {"image": "ubuntu-2"}])
def test_a_node_drifts_when_its_pool_has_another_image_or_addition(changed: dict[str, str]) -> None:
    strict = Disruption(replace_drifted=True, budgets=(MANY,))
    before = a_pool(size=1, setup=WITH_SETUP)
    after = evolve(before, setup=evolve(WITH_SETUP, **changed), disruption=strict)  # type: ignore[arg-type]
    node = a_node("old")
    assert node.launch is not None
    known = [evolve(node, launch=evolve(node.launch, setup_digest=before.setup_digest))]
    assert begun(after, known) == ["old"]


@pytest.mark.parametrize("user_data", ["", "mount /data"])
def test_what_the_server_does_for_a_machine_is_no_drift(user_data: str) -> None:
    """Also not for machines of an earlier version, which did not store how they were set up."""
    strict = Disruption(replace_drifted=True, budgets=(MANY,))
    before = a_pool(size=1, user_data=user_data, disruption=strict)
    other = MachineSetup(
        agent=AgentStart.SSH,
        commands=("start-agent {{.ControlPlane}}",),
        install_command="pip install navarch",
        user="admin",
        key_file="/key",
    )
    old = hashlib.sha256(user_data.encode()).hexdigest()[:16] if user_data else ""
    for setup in (MachineSetup(), other):
        after = evolve(before, setup=setup)
        assert after.setup_digest == old
        node = a_node("old")
        assert node.launch is not None
        assert begun(after, [evolve(node, launch=evolve(node.launch, setup_digest=old))]) == []


@pytest.mark.parametrize(("price", "replaced"), [("60", 1), ("90", 0), ("0", 0)])
def test_a_node_is_costly_when_the_same_type_is_available_for_much_less(
    price: str, replaced: int
) -> None:
    spot = evolve(H100, spot=True, price_per_hour=Decimal(price))
    pool = a_pool(size=2, offerings=(spot, H100), disruption=Disruption(savings_min=0.3))
    found = plan_replacements(pool, nodes(2), for_sale=spot, now=NOW)
    assert len(found.begin) == replaced


@pytest.mark.parametrize(
    ("listed", "price", "returns"),
    [
        ("spot first", "60", 1),
        ("spot first", "0", 1),
        ("spot first", "120", 0),
        ("spot last", "30", 0),
        ("spot only", "30", 0),
    ],
)
def test_a_pool_returns_to_the_spot_machines_it_prefers(
    listed: str, price: str, returns: int
) -> None:
    """No saving is configured, and the spot price may be unknown."""
    spot = evolve(H100, spot=True, price_per_hour=Decimal(price))
    lists = {"spot first": (spot, H100), "spot last": (H100, spot), "spot only": (spot,)}
    pool = a_pool(size=2, offerings=lists[listed])
    assert len(plan_replacements(pool, nodes(2), for_sale=spot, now=NOW).begin) == returns
    reserved = [
        evolve(node, launch=evolve(node.launch, offering=evolve(H100, reservation="r")))
        for node in nodes(2)
        if node.launch
    ]
    assert plan_replacements(pool, reserved, for_sale=spot, now=NOW).begin == ()


def test_a_cheap_successor_counts_by_its_purchase_price() -> None:
    pool = a_pool(size=1, nodes_max=2, disruption=Disruption(savings_min=0.3))
    successor = a_node("new", replaces="training-0")
    assert successor.launch is not None
    cheap = evolve(successor, launch=evolve(successor.launch, price_per_hour=Decimal(20)))
    assert retired(pool, [*nodes(1), cheap]) == [("training-0", False)]


def test_announced_maintenance_replaces_a_node() -> None:
    known = nodes(2)
    known[1] = evolve(known[1], conditions=(a_condition("maintenance"),))
    assert begun(a_pool(size=2), known) == ["training-1"]


DUE = a_node("training-0", conditions=(a_condition("maintenance"),), health=Health.DEGRADED)
COMING = a_node("training-1", phase=Phase.BOOTING, replaces=DUE.id)


def closures(*known: Node, pool: Pool | None = None) -> list[tuple[str, str]]:
    pool = pool or a_pool(size=1, nodes_max=2)
    plan = plan_replacements(pool, known, for_sale=None, now=NOW)
    return [(type(each).__name__, each.node) for each in plan.closures]


def test_a_node_gets_no_new_work_before_its_maintenance_once_its_successor_has_a_machine() -> None:
    wanted = evolve(COMING, phase=Phase.REQUESTED, launch=None, attempts=1)
    assert closures(DUE) == [], "no successor yet"
    assert closures(DUE, wanted) == [], "the successor was refused a machine"
    assert closures(DUE, COMING) == [("Cordon", "training-0")]
    assert closures(evolve(DUE, cordoned="by hand"), COMING) == []


def test_a_closed_node_gets_work_again_if_its_maintenance_or_its_successor_is_gone() -> None:
    closed = evolve(DUE, cordoned=f"{CLOSED}: soon; training-1 takes its place")
    failed = evolve(COMING, retiring=Retirement(reason="it did not register"))
    assert closures(closed, COMING) == []
    assert closures(closed, failed) == [("Uncordon", "training-0")]
    assert closures(evolve(closed, conditions=()), COMING) == [("Uncordon", "training-0")]
    assert closures(evolve(DUE, cordoned="by hand")) == []


def test_a_node_whose_successor_serves_is_removed_and_not_closed() -> None:
    serves = evolve(COMING, phase=Phase.READY, registered_at=NOW)
    assert retired(a_pool(size=1, nodes_max=2), [DUE, serves]) == [("training-0", False)]
    assert closures(DUE, serves) == []


def test_a_node_that_is_only_too_old_gets_work_until_its_successor_serves() -> None:
    pool = a_pool(size=1, nodes_max=2, disruption=OLD)
    assert closures(evolve(DUE, conditions=()), COMING, pool=pool) == []


def test_a_plan_closes_no_node_that_it_removes() -> None:
    pool = a_pool(size=1, nodes_max=3)
    known = [DUE, COMING, a_node("training-2")]
    closing = plan_replacements(pool, known, for_sale=None, now=NOW)
    plan = plan_pool(pool, known, replacements=closing, now=NOW, new_tokens=iter(()))
    touched = [each.node for each in plan.actions if isinstance(each, Cordon | Retire)]
    assert len(touched) == len(set(touched))


def test_a_spot_notice_drains_at_once() -> None:
    noticed = a_node("training-0", conditions=(a_condition("spot_notice"),))
    (retire,) = plan_notices([noticed])
    assert retire.urgent
    leaving = a_node("training-0", retiring=Retirement(reason="reclaimed", urgent=True))
    assert plan_drains(a_pool(size=1), [leaving], drained=(), now=NOW).actions


MONDAY = datetime(2026, 3, 16, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "hours", "at", "applies"),
    [
        ((), "", MONDAY, True),
        ((0,), "", MONDAY, True),
        ((1,), "", MONDAY, False),
        ((), "09:00-17:00", MONDAY + 9 * HOUR, True),
        ((), "09:00-17:00", MONDAY + 17 * HOUR, False),
        ((0,), "22:00-06:00", MONDAY + 23 * HOUR, True),
        ((0,), "22:00-06:00", MONDAY + 29 * HOUR, True),
        ((0,), "22:00-06:00", MONDAY + 5 * HOUR, False),
        ((0,), "22:00-06:00", MONDAY + 30 * HOUR, False),
    ],
)
def test_a_budget_applies_in_its_window(
    days: tuple[int, ...], hours: str, at: datetime, applies: bool
) -> None:
    assert DisruptionBudget(days=days, hours=hours).applies(at) is applies


@pytest.mark.parametrize(
    ("hours", "at", "applies"),
    [
        # Monday in Berlin begins an hour before Monday in UTC; nine there is eight in UTC.
        ("", MONDAY - HOUR, True),
        ("", MONDAY + 23 * HOUR, False),
        ("09:00-17:00", MONDAY + 8 * HOUR, True),
        ("09:00-17:00", MONDAY + 16 * HOUR, False),
        # Two weeks later the clocks have gone forward.
        ("09:00-17:00", MONDAY + timedelta(days=14, hours=7), True),
        ("22:00-06:00", MONDAY + 28 * HOUR, True),
        ("22:00-06:00", MONDAY + 29 * HOUR, False),
    ],
)
def test_a_budget_applies_by_the_clocks_of_its_time_zone(
    hours: str, at: datetime, applies: bool
) -> None:
    budget = DisruptionBudget(days=(0,), hours=hours, time_zone="Europe/Berlin")
    assert budget.applies(at) is applies


@pytest.mark.parametrize("nonsense", ["", "9", "25:00-26:00", "a-b"])
def test_invalid_hours_are_refused(nonsense: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        window(nonsense)


def test_the_strictest_applicable_budget_counts() -> None:
    no_node = DisruptionBudget(nodes_max=0, share_max=0.0, causes=(Cause.EXPIRED,))
    frozen = replace(OLD, budgets=(MANY, no_node))
    assert begun(a_pool(size=3, disruption=frozen), nodes(3)) == []
    tomorrow = replace(no_node, days=((NOW.weekday() + 1) % 7,))
    thawed = replace(OLD, budgets=(MANY, tomorrow))
    assert len(begun(a_pool(size=3, disruption=thawed), nodes(3))) == 3


def test_the_successor_of_a_costly_node_is_cheaper_regardless_of_the_strategy() -> None:
    """A more expensive successor would itself be replaced, in an endless loop."""
    cheap = evolve(H100, provider=ProviderName("cheap"), price_per_hour=Decimal(20))
    pool = a_pool(
        size=2, nodes_max=4, offerings=(H100, cheap), disruption=Disruption(savings_min=0.3)
    )
    known = nodes(2)
    found = plan_replacements(pool, known, for_sale=cheap, now=NOW)
    tokens = (Token(f"new-{number}") for number in range(9))

    plan = plan_pool(pool, known, now=NOW, new_tokens=tokens, replacements=found)

    bought = [action.launch.offering for action in plan.actions if isinstance(action, Request)]
    assert bought == [cheap]


def of_gangs(*gangs: tuple[int, ...]) -> Gangs:
    """Return the groups of nodes that share a job, by the numbers of the nodes."""
    jobs = [
        a_job(f"job-{place}", on=tuple(f"training-{i}" for i in gang))
        for place, gang in enumerate(gangs)
    ]
    return partial(nodes_by_gang, jobs)


def moves(pool: Pool, known: list[Node], gangs: Gangs) -> tuple[list[str], list[str]]:
    """Return the nodes that get a successor, and those that are retired."""
    plan = plan_replacements(pool, known, for_sale=None, gangs=gangs, now=NOW)
    return [each.node for each in plan.begin], [each.node for each in plan.retire]


def successor_of(number: int, **facts: object) -> Node:
    return a_node(f"new-{number}", replaces=f"training-{number}", **{"created_at": NOW, **facts})  # type: ignore[arg-type]


def test_the_nodes_of_a_gang_are_replaced_together_or_wait_for_the_budget() -> None:
    pool = a_pool(size=40, nodes_max=50, disruption=OLD)
    gangs = of_gangs((0, 10, 20, 30), (1, 2, 3))

    assert moves(pool, nodes(40), gangs)[0] == [f"training-{i}" for i in (0, 10, 20, 30)]
    known = nodes(40)
    known[5] = evolve(known[5], health=Health.UNHEALTHY)
    assert moves(pool, known, gangs)[0] == [], "the first gang waits for a budget of four nodes"


def test_a_gang_larger_than_the_budget_is_replaced_in_parts_of_the_budget() -> None:
    pool = a_pool(size=20, nodes_max=30, disruption=OLD)
    assert len(moves(pool, nodes(20), of_gangs(tuple(range(8))))[0]) == 2


def test_the_nodes_of_a_gang_are_retired_once_all_their_successors_serve() -> None:
    pool = a_pool(size=20, nodes_max=30, disruption=OLD)
    gangs = of_gangs((0, 1))
    boots = successor_of(1, phase=Phase.BOOTING)

    assert moves(pool, [*nodes(20), successor_of(0), boots], gangs)[1] == []
    both = [successor_of(0), successor_of(1)]
    assert moves(pool, [*nodes(20), *both], gangs)[1] == ["training-0", "training-1"]
    late = evolve(boots, created_at=NOW - pool.boot_deadline)
    assert moves(pool, [*nodes(20), successor_of(0), late], gangs)[1] == ["training-0"]
    assert moves(pool, [*nodes(20), successor_of(0), boots], of_gangs())[1] == ["training-0"]


def test_a_node_of_a_gang_waits_for_another_that_is_to_be_replaced_only_now() -> None:
    pool = a_pool(size=20, nodes_max=30, disruption=OLD)
    gangs = of_gangs((0, 1))

    begin, retire = moves(pool, [*nodes(20), successor_of(0)], gangs)
    assert ("training-1" in begin, retire) == (True, [])
    old = successor_of(0, created_at=NOW - pool.boot_deadline)
    assert moves(pool, [*nodes(20), old], gangs)[1] == ["training-0"]


def test_jobs_that_overlap_connect_their_nodes() -> None:
    gangs = of_gangs((0, 1), (1, 2), (4, 5))
    names = [f"training-{i}" for i in (3, 2, 0, 5)]
    assert gangs([NodeId(name) for name in names]) == [
        ("training-3",),
        ("training-2",),
        ("training-0",),
        ("training-5",),
    ], "nodes that stay connect nothing"
    assert gangs([NodeId(f"training-{i}") for i in (2, 1, 3, 0)]) == [
        ("training-2", "training-1", "training-0"),
        ("training-3",),
    ]
