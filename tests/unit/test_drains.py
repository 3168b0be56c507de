"""Plans of drains: which nodes start to drain and which are terminated."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import TESTING, Condition, Health
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.job import Job
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.drains import GANG_SETTLING, notice_due, plan_drains, seen_by_drains
from navarch.fleet.plan import Drain, Plan, Retire, Terminate
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

BROKEN = Retirement(reason="XID 79")
SURPLUS = Retirement(reason="3 of 2 nodes", surplus=True)


def moved(pool: Pool, nodes: Sequence[Node], *drained: str) -> list[tuple[str, str]]:
    found = {NodeId(name) for name in drained}
    plan = plan_drains(pool, nodes, drained=found, now=NOW)
    return [
        (type(action).__name__, action.node)
        for action in plan.actions
        if isinstance(action, Drain | Terminate)
    ]


def test_a_broken_node_drains_after_its_replacement_was_requested() -> None:
    pool = a_pool(size=1, nodes_max=2)
    broken = a_node("training-0", retiring=BROKEN)
    successor = a_node("training-1", phase=Phase.REQUESTED)
    assert moved(pool, [broken]) == []
    assert moved(pool, [broken, successor]) == [("Drain", "training-0")]


def test_an_unusable_node_drains_although_no_replacement_is_available() -> None:
    """It costs money, does no work, and may occupy the slot of its replacement."""
    pool = a_pool(size=2, nodes_max=3)
    other = a_node("training-1")
    lost = Condition(
        check="xid/79/GPU-0", health=Health.UNHEALTHY, reason="XID 79", since=NOW, fatal=True
    )
    fatal = a_node("training-0", retiring=BROKEN, conditions=(lost,))
    assert moved(pool, [fatal, other]) == [("Drain", "training-0")]
    ill = a_node("training-0", retiring=BROKEN, conditions=(evolve(lost, fatal=False),))
    assert moved(pool, [ill, other]) == [], "its work may go on until there is another"


def test_a_broken_node_drains_first_if_the_pool_has_no_room_for_both() -> None:
    broken = a_node("training-0", retiring=BROKEN)
    assert moved(a_pool(size=1, nodes_max=1), [broken]) == [("Drain", "training-0")]


def test_a_surplus_node_is_drained_at_once() -> None:
    assert moved(a_pool(size=0), [a_node("training-0", retiring=SURPLUS)]) == [
        ("Drain", "training-0")
    ]


def test_a_drained_node_is_terminated() -> None:
    draining = a_node("training-0", phase=Phase.DRAINING, retiring=BROKEN, since=NOW)
    assert moved(a_pool(), [draining]) == []
    assert moved(a_pool(), [draining], "training-0") == [("Terminate", "training-0")]


def test_a_broken_node_is_terminated_after_the_drain_timeout() -> None:
    pool = a_pool(drain_timeout=timedelta(minutes=5))
    since = NOW - timedelta(minutes=5)
    draining = a_node("training-0", phase=Phase.DRAINING, retiring=BROKEN, since=since)
    assert moved(pool, [draining]) == [("Terminate", "training-0")]


def test_a_sound_node_is_not_terminated_before_the_scheduler_was_notified() -> None:
    pool = a_pool(drain_timeout=timedelta(minutes=5))
    since = NOW - timedelta(hours=5)
    not_notified = a_node("training-0", phase=Phase.DRAINING, retiring=SURPLUS, since=since)
    notified = a_node(
        "training-1",
        phase=Phase.DRAINING,
        retiring=SURPLUS,
        since=since,
        notified=NotifiedState.DRAINING,
    )
    assert moved(pool, [not_notified]) == []
    assert moved(pool, [notified]) == [("Terminate", "training-1")]


def test_a_node_drained_by_hand_is_not_terminated() -> None:
    by_hand = a_node("training-0", phase=Phase.DRAINING, since=NOW - timedelta(days=1))
    assert moved(a_pool(), [by_hand], "training-0") == []


def test_the_next_plan_is_due_when_the_first_drain_times_out() -> None:
    pool = a_pool(drain_timeout=timedelta(minutes=5))
    draining = a_node("training-0", phase=Phase.DRAINING, retiring=BROKEN, since=NOW)
    plan = plan_drains(pool, [draining], drained=(), now=NOW)
    assert plan.wake_at == NOW + timedelta(minutes=5)


def test_a_node_takes_no_work_while_its_gpus_are_tested() -> None:
    testing = Condition(check=TESTING, health=Health.DEGRADED, reason="burn", since=NOW)
    node = a_node("training-0", registered_at=NOW)
    busy = evolve(node, conditions=(testing,), health=Health.DEGRADED)

    assert node.serving
    assert not busy.serving
    assert notice_due(busy) is NotifiedState.CORDONED
    assert notice_due(evolve(node, notified=NotifiedState.CORDONED)) is NotifiedState.OPEN


def test_an_unhealthy_node_takes_no_work_once_remediation_begins() -> None:
    broken = a_node("training-0", registered_at=NOW, health=Health.UNHEALTHY)

    assert notice_due(broken) is None, "nobody has decided anything yet, or it is held back"
    notified = evolve(broken, notified=NotifiedState.CORDONED)
    assert notice_due(notified) is NotifiedState.OPEN, "what is held back now is open again"
    assert notice_due(evolve(broken, cordoned="automatic: unhealthy")) is NotifiedState.CORDONED
    assert notice_due(evolve(broken, retiring=BROKEN)) is NotifiedState.CORDONED
    assert notice_due(evolve(broken, recovery=RecoveryId("r"))) is NotifiedState.CORDONED
    assert notice_due(evolve(broken, pool=None)) is NotifiedState.CORDONED, (
        "no pool decides about it"
    )


def written(pool: Pool, node: Node, retire: Retire) -> tuple[Node, list[tuple[str, str]]]:
    fleet = apply(Fleet(), Change(pools=[pool], nodes=[node]))
    change = changes([Plan(pool=pool.name, actions=(retire,))], fleet, now=NOW)
    return change.nodes[0], [(event.kind, event.facts["phase"]) for event in change.events]


def test_a_node_without_a_replacement_drains_in_the_commit_that_retires_it() -> None:
    lost = Condition(check="xid/79", health=Health.UNHEALTHY, reason="x", since=NOW, fatal=True)
    broken = a_node("training-0", conditions=(lost,))
    sound = a_node("training-0")
    both = [("node.retiring", "ready"), ("node.draining", "draining")]
    for node, retire in (
        (broken, Retire(node=broken.id, reason="XID 79")),
        (sound, Retire(node=sound.id, reason="3 of 2 nodes", surplus=True)),
        (sound, Retire(node=sound.id, reason="reclaimed", urgent=True)),
    ):
        after, events = written(a_pool(), node, retire)
        assert (after.phase, after.since, events) == (Phase.DRAINING, NOW, both), retire
        assert notice_due(after) is NotifiedState.DRAINING


def test_a_working_node_is_only_marked_until_it_is_replaced() -> None:
    after, events = written(
        a_pool(), a_node("training-0"), Retire(node=NodeId("training-0"), reason="too old")
    )
    assert (after.phase, events) == (Phase.READY, [("node.retiring", "ready")])


def test_a_booting_machine_is_terminated_without_a_drain() -> None:
    boots = a_node("training-0", phase=Phase.BOOTING)
    after, events = written(a_pool(), boots, Retire(node=boots.id, reason="too many", surplus=True))
    assert (after.phase, events) == (Phase.TERMINATING, [("node.retiring", "terminating")])


def test_a_machine_that_ends_during_its_termination_starts_no_drain() -> None:
    """Its end requires no plan: nodes that need a replacement keep waiting."""
    ended = a_node("training-0", phase=Phase.TERMINATING, retiring=BROKEN)
    gone = evolve(ended, phase=Phase.GONE)
    waits = a_node("training-1", retiring=BROKEN)
    pool = a_pool(size=1, nodes_max=3)
    assert moved(pool, [ended, waits]) == moved(pool, [gone, waits]) == []
    assert seen_by_drains(ended) == seen_by_drains(gone)
    assert seen_by_drains(ended) != seen_by_drains(evolve(ended, phase=Phase.DRAINING))


def retired(name: str, *, ago: timedelta, **facts: object) -> Node:
    retirement = evolve(BROKEN, decided_at=NOW - ago)
    return a_node(name, retiring=retirement, **facts)  # type: ignore[arg-type]


def gang_moved(*nodes: Node, jobs: Sequence[Job]) -> tuple[list[str], object]:
    """Return the nodes that drain while every replacement is on its way, and the next date."""
    coming = [a_node(f"new-{place}", phase=Phase.BOOTING) for place in range(len(nodes))]
    pool = a_pool(size=len(nodes), nodes_max=99)
    plan = plan_drains(pool, [*nodes, *coming], drained=(), jobs=jobs, now=NOW)
    return [each.node for each in plan.actions if isinstance(each, Drain)], plan.wake_at


def test_the_drain_of_a_gangs_node_waits_for_faults_of_its_neighbours_and_takes_them_along() -> (
    None
):
    gang = [a_job("gang", on=("a", "b", "c"))]
    a = retired("a", ago=timedelta(seconds=90))
    b, c = retired("b", ago=timedelta(seconds=10)), a_node("c")

    assert gang_moved(a, b, c, jobs=gang) == ([], NOW + timedelta(seconds=30))
    settled = retired("a", ago=GANG_SETTLING)
    assert gang_moved(settled, b, c, jobs=gang)[0] == ["a", "b"]


def test_a_node_without_a_part_of_a_gang_drains_without_waiting() -> None:
    node = retired("a", ago=timedelta(0))
    for jobs in ([], [a_job("single", on=("a",))], [a_job("gang", on=("b", "c"))]):
        assert gang_moved(node, a_node("b"), a_node("c"), jobs=jobs)[0] == ["a"]


def test_a_node_joins_the_drain_of_its_gang_unless_another_job_would_be_interrupted() -> None:
    gang = a_job("gang", on=("a", "b"), gpus=4)
    draining = a_node("a", phase=Phase.DRAINING, retiring=BROKEN, since=NOW)
    b = retired("b", ago=timedelta(0))

    assert gang_moved(draining, b, jobs=[gang])[0] == ["b"]
    assert gang_moved(draining, b, jobs=[gang, a_job("own", on=("b",), gpus=4)])[0] == []


def test_a_fatal_fault_of_a_gangs_node_does_not_wait() -> None:
    lost = Condition(check="xid/79", health=Health.UNHEALTHY, reason="x", since=NOW, fatal=True)
    fatal = retired("a", ago=timedelta(0), conditions=(lost,))
    assert gang_moved(fatal, a_node("b"), jobs=[a_job("gang", on=("a", "b"))])[0] == ["a"]
