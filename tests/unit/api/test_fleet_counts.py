"""Metrics of pools, incidents and jobs: what is counted, and what has a series at zero."""

from datetime import timedelta
from decimal import Decimal

from tests.support.exposition import a_table, values_of

from navarch.api.fleet_metrics import fleet_exposition
from navarch.core.alert import AlertGroup
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import AlertId, IncidentId, JobName, NodeId, PoolName
from navarch.core.incident import Incident, IncidentKind, IncidentState
from navarch.core.job import Job
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import Table, evolve
from navarch.testing.alert_channel_contract import a_message, an_alert, ended
from navarch.testing.worlds import H100, NOW, a_job, a_node, a_pool

HOUR = timedelta(hours=1)


def a_fleet(
    *nodes: Node,
    pools: tuple[Pool, ...] = (),
    incidents: tuple[Incident, ...] = (),
    jobs: tuple[Job, ...] = (),
) -> Fleet:
    table = Table({node.id: node for node in nodes})
    return Fleet(
        nodes=table,
        by_pool={PoolName("training"): table},
        pools=Table({pool.name: pool for pool in pools}),
        incidents=Table({IncidentId(each.id): each for each in incidents}),
        jobs=Table({JobName(job.name): job for job in jobs}),
    )


def expose(fleet: Fleet) -> str:
    return b"".join(fleet_exposition(fleet, now=NOW)).decode()


def test_a_pool_shows_its_size_its_spares_and_its_bounds() -> None:
    text = expose(a_fleet(pools=(a_pool(size=3, nodes_max=8, nodes_wanted=5, spares=1),)))

    sizes = [values_of(text, f"navarch_pool_{x}_nodes") for x in ("size", "target", "min", "max")]
    assert sizes == [{("training",): size} for size in (5, 6, 3, 8)]


def test_nodes_of_a_pool_are_counted_by_phase_and_health() -> None:
    text = expose(
        a_fleet(
            a_node("a", health=Health.HEALTHY),
            a_node("b", health=Health.HEALTHY, cordoned="by hand"),
            a_node("c", health=Health.UNHEALTHY, phase=Phase.DRAINING),
            a_node("d", phase=Phase.GONE),
            pools=(a_pool(),),
        )
    )

    phases = values_of(text, "navarch_pool_nodes")
    assert (phases["ready", "training"], phases["draining", "training"]) == (2, 1)
    assert phases["requested", "training"] == 0
    assert ("gone", "training") not in phases
    health = values_of(text, "navarch_pool_health_nodes")
    assert (health["healthy", "training"], health["unhealthy", "training"]) == (2, 1)
    assert values_of(text, "navarch_pool_serving_nodes") == {("training",): 1}


def test_a_deleted_pool_is_exposed_until_its_last_node_is_gone() -> None:
    pool = a_pool(deleted=True)

    for phase, shown in ((Phase.TERMINATING, True), (Phase.GONE, False)):
        text = expose(a_fleet(a_node("a", phase=phase), pools=(pool,)))
        assert (("training",) in values_of(text, "navarch_pool_size_nodes")) is shown


def test_nodes_without_a_pool_have_a_label_that_is_no_pool_name() -> None:
    text = expose(a_fleet(evolve(a_node("a"), pool=None, launch=None)))

    assert values_of(text, "navarch_pool_nodes") == {("ready", "-"): 1}
    assert 'node_info{node_id="a",pool="-"' in text


def test_deferred_actions_count_by_limit_until_they_are_released() -> None:
    held = Deferred(
        action="replace", reason="xid", because="3 nodes", by=DeferredBy.CHANGE, since=NOW
    )
    text = expose(
        a_fleet(
            a_node("a", held=held),
            a_node("b", held=evolve(held, released="by hand")),
            pools=(a_pool(),),
        )
    )

    counts = values_of(text, "navarch_pool_held_nodes")
    assert counts["change", "training"] == 1
    assert counts["budget", "training"] == 0


def test_a_paused_pool_shows_the_cause() -> None:
    text = expose(a_fleet(pools=(a_pool(braked="3 machines"), a_pool("other", held="a change"))))

    paused = {key for key, value in values_of(text, "navarch_pool_paused").items() if value}
    assert paused == {("launches", "training"), ("held", "other")}


def test_the_longest_wait_for_a_machine_counts_only_nodes_that_are_wanted() -> None:
    late = a_node("a", phase=Phase.REQUESTED, created_at=NOW - 2 * HOUR)
    given_up = a_node(
        "b",
        phase=Phase.TERMINATING,
        created_at=NOW - 9 * HOUR,
        retiring=Retirement(reason="late"),
        registered_at=None,
    )
    ready = a_node("c", created_at=NOW - 99 * HOUR)
    text = expose(a_fleet(late, given_up, ready, pools=(a_pool(),)))

    assert values_of(text, "navarch_pool_longest_pending_seconds") == {("training",): 7200}


def test_spend_is_the_price_of_machines_that_run() -> None:
    requested = a_node("b", phase=Phase.REQUESTED)
    ended = a_node("c", phase=Phase.TERMINATING)
    assert ended.launch is not None
    ended = evolve(ended, launch=evolve(ended.launch, ended_at=NOW))
    text = expose(a_fleet(a_node("a"), requested, ended, pools=(a_pool(),)))

    spend = values_of(text, "navarch_pool_spend_per_hour")
    assert spend == {("training", H100.provider): float(Decimal("98.32"))}


def test_open_incidents_count_by_kind_and_state() -> None:
    incident = Incident(
        id=IncidentId("i"),
        kind=IncidentKind.HARDWARE,
        node=NodeId("a"),
        opened_at=NOW,
        last_at=NOW,
        title="XID 79",
        check="xid",
        state=IncidentState.HELD,
    )
    closed = evolve(incident, id=IncidentId("j"), state=IncidentState.RESOLVED, closed_at=NOW)
    text = expose(a_fleet(incidents=(incident, closed)))

    counts = values_of(text, "navarch_incidents_open")
    assert counts["hardware", "held"] == 1
    assert sum(counts.values()) == 1
    assert counts["fabric", "open"] == 0


def test_jobs_count_by_queue_and_state_with_the_longest_wait() -> None:
    placed = a_job("placed", on=("a",), since=NOW - 9 * HOUR, queue="research")
    waiting = (a_job("w1", since=NOW - HOUR), a_job("w2", since=NOW - 3 * HOUR))
    text = expose(a_fleet(jobs=(placed, *waiting)))

    counts = values_of(text, "navarch_jobs")
    assert (counts["default", "waiting"], counts["default", "placed"]) == (2, 0)
    assert counts["research", "placed"] == 1
    waits = values_of(text, "navarch_job_longest_wait_seconds")
    assert waits == {("default",): 3 * 3600, ("research",): 0}


def test_only_nodes_that_should_report_have_a_last_heartbeat() -> None:
    fleet = a_fleet(
        a_node("ready"),
        a_node("leaving", phase=Phase.TERMINATING),
        a_node("never"),
        pools=(a_pool(name=PoolName("training")),),
    )
    table = a_table("ready", "leaving")
    text = b"".join(fleet_exposition(fleet, now=NOW, telemetry=table)).decode()

    seen = values_of(text, "navarch_node_last_heartbeat_timestamp_seconds")
    at = table.last_heartbeat(NodeId("ready"))
    assert at is not None
    assert set(seen) == {("ready",)}
    assert abs(seen["ready",] - at.timestamp()) < 0.001


def test_alerts_are_counted_by_cause_and_severity_and_channels_by_their_failures() -> None:
    alert = an_alert()
    groups = [
        AlertGroup(id=f"ops/{name}", channel="ops", group=name, pending=pending, attempts=attempts)
        for name, pending, attempts in (
            ("a", a_message(), 4),
            ("b", a_message(), 2),
            ("c", None, 0),
        )
    ]
    fleet = Fleet(
        alerts=Table({alert.id: alert, AlertId("over"): ended(alert)}),
        alert_groups=Table({each.id: each for each in groups}),
    )
    text = expose(fleet)

    assert values_of(text, "navarch_alerts")["node-fault", "critical"] == 1
    assert values_of(text, "navarch_alerts")["budget-spent", "critical"] == 0
    assert values_of(text, "navarch_alert_messages_waiting") == {("ops",): 2}
    assert values_of(text, "navarch_alert_channel_failures") == {("ops",): 4}
