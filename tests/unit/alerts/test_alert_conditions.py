"""What deserves an alert, and which alert explains another."""

from datetime import timedelta
from decimal import Decimal

import pytest

from navarch.core.alert import AlertAction, AlertGroup, AlertMessage, Severity
from navarch.core.budget import Budget, BudgetOf
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.errors import CapacityError, CredentialError, ProviderError, QuotaError
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import IncidentId, NodeId, PoolName
from navarch.core.incident import Incident, IncidentKind
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import launching, lifecycle
from navarch.fleet.alerts.conditions import (
    AlertCondition,
    AlertInputs,
    find_conditions,
)
from navarch.fleet.money.books import Account
from navarch.fleet.money.budgets import Spending
from navarch.ports.api import FailingController
from navarch.testing.worlds import NOW, a_node, a_pool


def fault(check: str = "xid", reason: str = "XID 79") -> Condition:
    return Condition(check=check, health=Health.UNHEALTHY, reason=reason, since=NOW)


def broken(name: str, *faults: Condition, **facts: object) -> Node:
    node = a_node(name, health=Health.UNHEALTHY, conditions=faults or (fault(),))
    return evolve(node, **facts)  # type: ignore[arg-type]


def works(name: str) -> Node:
    return a_node(name, health=Health.HEALTHY)


def a_fleet(*nodes: Node, pools: tuple[Pool, ...] = (), **more: object) -> Fleet:
    pools = pools or (a_pool(size=len(nodes)),)
    return apply(Fleet(), Change(pools=pools, nodes=nodes, **more))  # type: ignore[arg-type]


def found(fleet: Fleet, **more: object) -> dict[str, AlertCondition]:
    inputs = AlertInputs(fleet=fleet, now=NOW, **more)  # type: ignore[arg-type]
    conditions = find_conditions(inputs)
    return {str(name): each for name, each in conditions.items()}


def held(by: DeferredBy, because: str = "too many") -> Deferred:
    return Deferred(action="replace", reason="XID 79", because=because, by=by, since=NOW)


def an_incident(node: str, kind: IncidentKind = IncidentKind.HARDWARE) -> Incident:
    return Incident(
        id=IncidentId(f"incident-{node}"),
        kind=kind,
        node=NodeId(node),
        opened_at=NOW,
        last_at=NOW,
        title="GPU fell off the bus",
        check="xid",
        pool=PoolName("training"),
    )


def test_a_healthy_fleet_has_no_alert() -> None:
    assert found(a_fleet(works("training-0"), works("training-1"))) == {}


def test_a_fault_and_its_incident_are_one_alert() -> None:
    fleet = a_fleet(broken("training-0"), incidents=[an_incident("training-0")])

    alerts = found(fleet)

    assert "node-fault@training-0" in alerts
    assert sum(each.cause == "node-fault" for each in alerts.values()) == 1
    assert "XID 79" in alerts["node-fault@training-0"].summary


def test_a_fault_of_an_application_is_no_alert() -> None:
    incident = an_incident("training-0", IncidentKind.APPLICATION)
    assert found(a_fleet(works("training-0"), incidents=[incident])) == {}


def test_a_fault_that_automation_repairs_is_a_warning() -> None:
    leaving = Retirement(reason="XID 79")
    for node in (broken("training-0"), broken("training-0", retiring=leaving)):
        assert found(a_fleet(node))["node-fault@training-0"].severity is Severity.WARNING


@pytest.mark.parametrize(
    ("node", "pool", "why"),
    [
        (broken("training-0", held=held(DeferredBy.SILENCE)), a_pool(size=1), "holds back"),
        (broken("training-0"), a_pool(size=1, auto_replace=False), "leaves faults to operators"),
        (evolve(broken("training-0"), pool=None), a_pool(size=1), "in no pool"),
    ],
)
def test_a_fault_that_automation_leaves_to_people_is_critical(
    node: Node, pool: Pool, why: str
) -> None:
    alert = found(a_fleet(node, pools=(pool,)))["node-fault@training-0"]
    assert alert.severity is Severity.CRITICAL
    assert why in alert.summary


def test_a_spent_budget_of_automation_passes_by_itself() -> None:
    node = broken("training-0", held=held(DeferredBy.BUDGET))
    assert found(a_fleet(node))["node-fault@training-0"].severity is Severity.WARNING


def test_a_silent_node_must_be_silent_for_a_while() -> None:
    silent = found(a_fleet(broken("training-0", fault(HEARTBEAT))))["node-fault@training-0"]
    broke = found(a_fleet(broken("training-0")))["node-fault@training-0"]
    assert silent.after > timedelta(0)
    assert broke.after == timedelta(0)


def test_an_outage_is_one_alert_that_explains_those_of_its_nodes() -> None:
    silent = [broken(f"training-{i}", fault(HEARTBEAT)) for i in range(3)]
    pool = a_pool(size=4, unreachable=True, held="the network is down")
    alerts = found(a_fleet(*silent, broken("training-3"), pools=(pool,)))

    assert alerts["nodes-unreachable@training"].summary.startswith("3 nodes")
    explained = {name for name, each in alerts.items() if each.part_of is not None}
    assert explained == {f"node-fault@training-{i}" for i in range(3)}
    assert "pool-below-target@training" not in alerts


def test_a_fault_that_paused_a_pool_is_explained_by_the_pause() -> None:
    pool = a_pool(size=2, held="rack r1 has 9 faults")
    waits = broken("training-0", held=held(DeferredBy.CHANGE))
    alerts = found(a_fleet(waits, broken("training-1"), pools=(pool,)))

    assert alerts["automation-paused@training"].severity is Severity.CRITICAL
    assert alerts["node-fault@training-0"].part_of == "automation-paused@training"
    assert alerts["node-fault@training-1"].part_of is None


def test_pauses_of_several_pools_are_one_group() -> None:
    pools = (a_pool("a", size=0, held="rack r1"), a_pool("b", size=0, held="rack r1"))
    groups = {each.group for each in found(a_fleet(pools=pools)).values()}
    assert groups == {"automation-paused"}


def test_an_alert_of_a_deleted_pool_explains_nothing() -> None:
    pool = a_pool(size=1, unreachable=True, held="the network is down", deleted=True)
    alerts = found(a_fleet(broken("training-0", fault(HEARTBEAT)), pools=(pool,)))
    assert set(alerts) == {"node-fault@training-0"}
    assert alerts["node-fault@training-0"].part_of is None


def refused(name: str, error: ProviderError) -> Node:
    node = a_node(name, phase=Phase.REQUESTED)
    assert node.launch is not None
    change = launching.refused(node, node.launch.token, error, now=NOW)
    assert change is not None
    (after,) = change.nodes
    return after


def test_rejected_credentials_are_one_alert_of_the_provider() -> None:
    nodes = [refused(f"training-{i}", CredentialError("expired")) for i in range(3)]
    alerts = found(a_fleet(*nodes))
    assert set(alerts) == {"provider-credentials@sim"}


def test_a_quota_is_one_alert_of_the_pool_and_a_stock_out_none_at_first() -> None:
    nodes = [refused(f"training-{i}", QuotaError("8 vCPUs")) for i in range(3)]
    assert set(found(a_fleet(*nodes))) == {"launches-refused@training"}
    short = found(a_fleet(refused("training-0", CapacityError("sold out"))))
    assert set(short) == {"pool-below-target@training"}
    assert short["pool-below-target@training"].after > timedelta(0)


def test_a_refusal_is_over_once_a_machine_is_bought() -> None:
    node = refused("training-0", QuotaError("8 vCPUs"))
    again = evolve(node, launch=a_node("training-0", phase=Phase.REQUESTED).launch)
    assert set(found(a_fleet(again))) == {"launches-refused@training"}, "the next one is under way"
    assert again.launch is not None
    booting = lifecycle.launched(again, again.launch, now=NOW)
    assert "launches-refused@training" not in found(a_fleet(booting))


def test_a_machine_that_does_not_end_is_an_alert_after_half_an_hour() -> None:
    ending = a_node("training-0", phase=Phase.TERMINATING)
    begun = evolve(ending, since=NOW - timedelta(minutes=29))
    pool = a_pool(size=0)
    assert found(a_fleet(begun, pools=(pool,))) == {}
    stuck = evolve(ending, since=NOW - timedelta(minutes=30))
    assert set(found(a_fleet(stuck, pools=(pool,)))) == {"termination-stuck@training-0"}


def test_a_pool_that_stopped_buying_is_critical() -> None:
    alerts = found(a_fleet(pools=(a_pool(size=3, braked="3 machines did not come up"),)))
    assert set(alerts) == {"purchases-paused@training"}
    assert alerts["purchases-paused@training"].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("spent", "severity"), [(100, None), (850, Severity.WARNING), (1001, Severity.CRITICAL)]
)
def test_a_budget_alerts_when_it_is_nearly_spent(spent: int, severity: Severity | None) -> None:
    budget = Budget(of=BudgetOf.TEAM, name="nlp", limit_per_month=Decimal(1000))
    account = Account(spent=Decimal(spent))
    alerts = found(a_fleet(), spending=[Spending(budget=budget, at=NOW, account=account)])
    assert [each.severity for each in alerts.values()] == ([severity] if severity else [])
    assert all(each.team == "nlp" for each in alerts.values())


def test_a_check_that_the_policy_cannot_judge_is_one_alert() -> None:
    conditions = [
        Condition(check=f"policy/xid/31/GPU-{i}", health=Health.UNKNOWN, reason="budget", since=NOW)
        for i in range(3)
    ]
    nodes = [evolve(works(f"training-{i}"), conditions=tuple(conditions)) for i in range(3)]
    assert set(found(a_fleet(*nodes))) == {"policy-failed@xid"}


def test_a_controller_must_fail_for_a_while() -> None:
    part = FailingController(name="sizing", since=NOW, error="KeyError", times=9, retry_at=NOW)
    alert = found(a_fleet(), failing=[part])["controller-failing@sizing"]
    assert alert.after > timedelta(0)
    assert "sizing" in alert.summary


def test_a_channel_that_refuses_messages_is_an_alert_itself() -> None:
    message = AlertMessage(
        id="m",
        action=AlertAction.TRIGGER,
        cluster="c",
        group="g",
        alerts=(),
        news=(),
        created_at=NOW,
    )
    group = AlertGroup(id="oncall/g", channel="oncall", group="g", pending=message, attempts=2)
    assert found(a_fleet(alert_groups=[group])) == {}
    failing = evolve(group, attempts=3, error="403")
    alert = found(a_fleet(alert_groups=[failing]))["alert-delivery@oncall"]
    assert "403" in alert.summary
