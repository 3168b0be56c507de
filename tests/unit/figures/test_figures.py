"""Figures from a journal and the ground truth."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from navarch.core.event import Event, Recorded, Subject, about
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.records import evolve
from navarch.fleet.disruption.replacement import CLOSED
from navarch.sim.figures.figures import JobRecord, goodput_of, measure
from navarch.sim.figures.interruptions import Interruption
from navarch.sim.figures.reactions import duration_stats
from navarch.sim.figures.timeline import GroundTruth, InjectedFault, Lease, RequestedOutage

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def journal(*events: tuple[float, str, str, dict[str, str], tuple[str, ...]]) -> list[Recorded]:
    return [
        Recorded(
            number=number,
            revision=number,
            event=Event(
                at=at(seconds),
                about=Subject(subject),
                kind=kind,
                reason="so",
                facts=facts,
                because=tuple(map(Subject, because)),
            ),
        )
        for number, (seconds, subject, kind, facts, because) in enumerate(events, start=1)
    ]


def node(name: str) -> str:
    return about("node", name)


HEALTHY, UNHEALTHY = {"health": "healthy"}, {"health": "unhealthy"}
READY = {"phase": "ready"}


def a_truth(**facts: object) -> GroundTruth:
    lease = Lease(node=NodeId("n"), gpus=8, began=at(0), ended=None, price_per_hour=Decimal(10))
    return GroundTruth(**{"began": at(0), "ended": at(3600), "leases": (lease,), **facts})  # type: ignore[arg-type]


def a_fault(
    seconds: float, *, cleared: float | None = None, true_health: Health = Health.UNHEALTHY
) -> InjectedFault:
    return InjectedFault(
        node=NodeId("n"),
        at=at(seconds),
        kind="xid_error",
        true_health=true_health,
        cleared_at=None if cleared is None else at(cleared),
    )


def test_a_machine_in_service_throughout_delivers_all_its_gpu_hours() -> None:
    figures = measure(journal((0, node("n"), "node.registered", READY, ())), a_truth())

    assert figures.availability == 1.0
    assert figures.gpu_hours.delivered == figures.gpu_hours.paid == 8.0
    assert figures.money.billed == Decimal("10.00")
    assert figures.money.wasted == 0


def test_detection_time_counts_from_the_fault_and_not_from_the_report() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (1810, node("n"), "node.health", UNHEALTHY, ()),
    )
    figures = measure(recorded, a_truth(faults=(a_fault(1800),)))

    assert figures.detection.max_s == figures.cordon.max_s == 10.0
    assert figures.undetected == 0
    assert figures.gpu_hours.delivered == 4.0, "broken and in service is not delivered"
    assert figures.gpu_hours.lost == figures.gpu_hours.wasted == 4.0


def test_a_fault_without_a_finding_counts_as_undetected() -> None:
    recorded = journal((0, node("n"), "node.registered", READY, ()))

    assert measure(recorded, a_truth(faults=(a_fault(10),))).undetected == 1


def test_replacement_time_ends_when_the_successor_is_in_service() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (110, node("n"), "node.health", UNHEALTHY, ()),
        (111, node("n"), "node.retiring", READY, ()),
        (112, node("m"), "node.requested", {"phase": "requested"}, (node("n"),)),
        (300, node("m"), "node.registered", READY, ()),
    )

    assert measure(recorded, a_truth(faults=(a_fault(100),))).replacement.max_s == 200.0


def test_a_sound_machine_taken_out_of_service_is_a_false_cordon() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.health", UNHEALTHY, ()),
    )

    assert measure(recorded, a_truth()).false_cordons == 1
    assert measure(recorded, a_truth(faults=(a_fault(40),))).false_cordons == 0
    request = RequestedOutage(at=at(49), over=at(55))
    assert measure(recorded, a_truth(requested_outages={NodeId("n"): [request]})).false_cordons == 0
    early = RequestedOutage(at=at(10), over=at(49))
    assert measure(recorded, a_truth(requested_outages={NodeId("n"): [early]})).false_cordons == 1
    assert measure(recorded, a_truth(faults=(a_fault(60),))).false_cordons == 1, "too early"


@pytest.mark.parametrize(
    ("kind", "destroyed"),
    [("node.cordoned", 0), ("node.draining", 0), ("node.recovering", 0), ("node.retiring", 1)],
)
def test_every_action_on_a_sound_node_counts_even_out_of_service(kind: str, destroyed: int) -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (40, node("n"), "node.health", UNHEALTHY, ()),
        (2000, node("n"), kind, READY, ()),
    )
    passed = a_truth(faults=(a_fault(40, cleared=60),))
    broken = a_truth(faults=(a_fault(40),))

    assert (measure(recorded, passed).false_cordons, measure(recorded, broken).false_cordons) == (
        1,
        0,
    )
    assert measure(recorded, passed).sound_destroyed == destroyed


def test_a_node_counts_once_however_often_it_is_acted_on() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.health", UNHEALTHY, ()),
        (60, node("n"), "node.health", HEALTHY, ()),
        (70, node("n"), "node.health", UNHEALTHY, ()),
        (80, node("n"), "node.retiring", READY, ()),
    )

    figures = measure(recorded, a_truth())
    assert (figures.false_cordons, figures.sound_destroyed) == (1, 1)


def test_a_fault_of_the_software_explains_a_cordon_and_not_a_removal() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.health", UNHEALTHY, ()),
        (60, node("n"), "node.retiring", READY, ()),
    )
    driver = evolve(a_fault(40), in_machine=False)

    figures = measure(recorded, a_truth(faults=(driver,)))
    assert (figures.false_cordons, figures.sound_destroyed) == (0, 1)


@pytest.mark.parametrize("reason", ["expired", "drifted", "costly", "maintenance"])
def test_a_planned_replacement_is_counted_apart(reason: str) -> None:
    first, last = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.retiring", READY, ()),
    )
    last = evolve(last, event=evolve(last.event, reason=f"{reason}: so"))

    figures = measure([first, last], a_truth())
    assert (figures.planned_replacements, figures.false_cordons) == (1, 0)
    assert figures.sound_destroyed == 0


def test_a_node_that_is_closed_before_its_maintenance_is_not_a_false_cordon() -> None:
    first, closed, removed = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.cordoned", READY, ()),
        (90, node("n"), "node.retiring", READY, ()),
    )
    closed = evolve(closed, event=evolve(closed.event, reason=f"{CLOSED}: on Sunday"))
    due = evolve(removed, event=evolve(removed.event, reason="maintenance: on Sunday"))

    assert measure([first, closed, due], a_truth()).false_cordons == 0
    assert measure([first, closed, removed], a_truth()).sound_destroyed == 1


def test_shrinking_a_pool_is_not_a_false_cordon() -> None:
    recorded = journal(
        (0, node("n"), "node.registered", READY, ()),
        (50, node("n"), "node.retiring", READY, ("pool/p",)),
    )

    assert measure(recorded, a_truth()).false_cordons == 0


def test_a_running_machine_that_no_node_claims_is_a_leak() -> None:
    bought = Lease(node=NodeId("p-0"), gpus=8, began=at(0), ended=None, pool="p", token="launch-1")

    assert measure([], a_truth(leases=(bought,)), claimed=()).leaks == 1
    assert measure([], a_truth(leases=(bought,)), claimed={"launch-1"}).leaks == 0


def test_wanted_gpu_hours_follow_the_sizes_in_the_journal() -> None:
    bought = Lease(node=NodeId("p-0"), gpus=4, began=at(0), ended=None, pool="p", token="t")
    recorded = journal(
        (0, "pool/p", "pool.created", {"size": "2"}, ()),
        (1800, "pool/p", "pool.scaled", {"size": "1"}, ()),
        (0, node("p-0"), "node.registered", READY, ()),
    )

    figures = measure(recorded, a_truth(leases=(bought,)), claimed={"t"})

    assert figures.gpu_hours.wanted == 6.0
    assert figures.gpu_hours.delivered == 4.0
    assert figures.availability == round(4 / 6, 6)


def test_percentiles_are_by_nearest_rank() -> None:
    stats = duration_stats(range(1, 101))

    assert (stats.count, stats.p50_s, stats.p95_s, stats.max_s) == (100, 50, 95, 100)


def a_job(name: str = "j", **facts: object) -> JobRecord:
    plain = {"queue": "q", "gpus": 8, "submitted": at(0), "finished": None, "kept_s": 3000.0}
    return JobRecord(name=name, **{**plain, **facts})  # type: ignore[arg-type]


def test_a_fault_that_ends_two_runs_of_a_job_counts_once_in_the_divisor() -> None:
    hits = [
        Interruption(job="j", at=at(100), node=NodeId("n")),
        Interruption(job="j", at=at(160), node=NodeId("n")),
        Interruption(job="j", at=at(900), node=NodeId("sound")),
        Interruption(job="j", at=at(950)),
    ]
    goodput = goodput_of([a_job()], ended=at(3600), interruptions=hits, faults=[a_fault(100)])

    assert goodput.interruptions_per_fault == 2.0
    assert goodput.unprovoked_interruptions == 2
    once = goodput_of([a_job()], ended=at(3600), interruptions=hits[:1], faults=[a_fault(100)])
    assert once.interruptions_per_fault == 1.0
    assert goodput_of([a_job()], ended=at(3600)).interruptions_per_fault is None


def test_the_best_ettr_charges_restarts_half_a_checkpoint_interval_and_every_checkpoint() -> None:
    job = a_job(restart_s=120.0, checkpoint_every_s=600.0, checkpoint_takes_s=30.0)
    hit = [Interruption(job="j", at=at(100), node=NodeId("n"))]

    assert goodput_of([job], ended=at(3600)).ettr_bound == round(1 / 1.05, 6)
    bound = goodput_of([job], ended=at(3600), interruptions=hit, faults=[a_fault(100)]).ettr_bound
    assert bound == round((1 - 420 / 3600) / 1.05, 6)
    assert goodput_of([a_job()], ended=at(3600)).ettr_bound is None


def test_ettr_weights_jobs_by_their_gpus() -> None:
    def job(gpus: int, kept_s: float) -> JobRecord:
        return JobRecord(
            name="j", queue="q", gpus=gpus, submitted=at(0), finished=None, kept_s=kept_s
        )

    assert goodput_of([job(8, 1800), job(24, 3600)], ended=at(3600)).ettr == 0.875
