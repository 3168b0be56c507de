"""Reservations: the place that a job gets back after it has left a slow node."""

from datetime import timedelta

import pytest

from navarch.core.event import about
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Condition, Health
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import fleet_cluster
from navarch.fleet.jobs.placement import plan_jobs
from navarch.fleet.jobs.reservations import RESERVED_FOR, reserved_nodes
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.jobs.swaps import PLACED_FOR_MIN, plan_swaps
from navarch.scheduler.explain import why_job
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

GANG = JobName("gang")
SETTINGS = Scheduling()
SLOW = Condition(
    check="straggler/GPU-5",
    health=Health.DEGRADED,
    reason="GPU 5 is at 1400 MHz",
    since=NOW,
    facts={"shortfall_pct": "12.5"},
)


def swapped(*, preemptible: bool = True, jobs: tuple[Job, ...] = ()) -> Fleet:
    """Return a fleet right after the straggler `a` of a gang on `a` and `b` has begun to drain."""
    gang = a_job(
        GANG,
        on=("a", "b"),
        since=NOW - PLACED_FOR_MIN,
        preemptible=preemptible,
        checkpointed_at=NOW,
        priority=10,
    )
    slow = a_node("a", conditions=(SLOW,), health=Health.DEGRADED, gpus=8)
    nodes = [slow, *(a_node(name, gpus=8) for name in ("b", "spare"))]
    fleet = apply(Fleet(), Change(pools=[a_pool()], nodes=nodes, jobs=[gang]))
    fleet = apply(fleet, plan_jobs(fleet, SETTINGS, now=NOW).change)
    assert fleet.nodes[NodeId("a")].phase is Phase.DRAINING
    return apply(fleet, Change(jobs=jobs))


def rival() -> Job:
    return a_job("rival", tasks=1, priority=90, since=NOW, submitted_at=NOW)


def placed(fleet: Fleet, job: str) -> tuple[str, ...]:
    return fleet.jobs[JobName(job)].nodes


def after(fleet: Fleet, rounds: int = 1, *, later: timedelta = timedelta(0)) -> Fleet:
    for _ in range(rounds):
        fleet = apply(fleet, plan_jobs(fleet, SETTINGS, now=NOW + later).change)
    return fleet


def test_a_job_that_comes_during_a_swap_does_not_get_the_spare() -> None:
    fleet = swapped(jobs=(rival(),))

    interrupted = after(fleet)
    assert interrupted.jobs[GANG].state is JobState.WAITING
    settled = after(interrupted, 2)

    assert set(placed(settled, GANG)) == {"b", "spare"}
    assert placed(settled, "rival") == ()


def test_a_job_that_must_leave_by_itself_finds_its_spare_free() -> None:
    fleet = swapped(preemptible=False, jobs=(rival(),))
    waits = after(fleet, 3)
    assert (placed(waits, GANG), placed(waits, "rival")) == (("a", "b"), ())

    left = waits.jobs[GANG].to(JobState.WAITING, at=NOW, reason="saved its work")
    settled = after(apply(waits, Change(jobs=[left])), 2)

    assert set(placed(settled, GANG)) == {"b", "spare"}


def test_a_reservation_names_the_other_nodes_and_the_spare_in_the_journal() -> None:
    fleet = apply(Fleet(), Change(pools=[a_pool()]))
    slow = a_node("a", conditions=(SLOW,), health=Health.DEGRADED, gpus=8)
    gang = a_job(GANG, on=("a", "b"), since=NOW - PLACED_FOR_MIN)
    nodes = [slow, a_node("b", gpus=8), a_node("spare", gpus=8)]
    fleet = apply(fleet, Change(nodes=nodes, jobs=[gang]))

    change = plan_swaps(fleet, now=NOW).change

    (holder,) = change.jobs
    assert holder.reservation is not None
    assert set(holder.reservation.nodes) == {"b", "spare"}
    reasons = {event.about: event.reason for event in change.events}
    assert reasons[about("node", "spare")].startswith(
        "reserved for job gang, which leaves a, until"
    )
    assert reasons[about("job", GANG)].startswith("gets spare instead of a; no other job")


def test_a_waiting_job_is_shown_for_which_job_a_node_is_reserved() -> None:
    fleet = swapped(preemptible=False, jobs=(rival(),))
    cluster = fleet_cluster(fleet, SETTINGS.queues, now=NOW)

    attempt = why_job(cluster, SETTINGS.config, "rival").attempt

    assert attempt is not None
    refusals = {name: each.reason for each in attempt.refusals for name in each.examples}
    assert "reserved-for-job=gang" in refusals["spare"]


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELLED, JobState.PLACED])
def test_a_reservation_ends_with_the_job_or_when_it_is_placed(state: JobState) -> None:
    job = swapped().jobs[GANG]
    waiting = job.to(JobState.WAITING, at=NOW, reason="drained")
    assert waiting.reservation == job.reservation
    if state is JobState.FINISHED:
        ended = job.to(state, at=NOW, reason="done")
    else:
        nodes = (NodeId("b"), NodeId("spare")) if state is JobState.PLACED else ()
        ended = waiting.to(state, at=NOW, reason="over", nodes=nodes)
    assert ended.reservation is None


def test_a_reservation_ends_after_half_an_hour_and_another_job_gets_the_spare() -> None:
    fleet = swapped(preemptible=False, jobs=(rival(),))
    plan = plan_jobs(fleet, SETTINGS, now=NOW)
    assert plan.wake_at == NOW + RESERVED_FOR

    just_before = after(fleet, 2, later=RESERVED_FOR - timedelta(seconds=1))
    assert placed(just_before, "rival") == ()
    ended = plan_jobs(fleet, SETTINGS, now=NOW + RESERVED_FOR)
    assert [event.kind for event in ended.change.events] == ["job.reservation_ended"]
    assert placed(after(fleet, 2, later=RESERVED_FOR), "rival") == ("spare",)


def test_a_reservation_ends_if_the_drain_of_the_slow_node_is_cancelled() -> None:
    fleet = swapped(preemptible=False, jobs=(rival(),))
    node = evolve(fleet.nodes[NodeId("a")], phase=Phase.READY, cordoned=None, conditions=())
    settled = after(apply(fleet, Change(nodes=[node])), 2)

    assert settled.jobs[GANG].reservation is None
    assert (placed(settled, GANG), placed(settled, "rival")) == (("a", "b"), ("spare",))


def test_reserved_nodes_are_not_those_that_the_job_still_holds() -> None:
    fleet = swapped()
    assert reserved_nodes(fleet.jobs.values()) == {"spare": GANG}
    waiting = fleet.jobs[GANG].to(JobState.WAITING, at=NOW, reason="drained")
    assert reserved_nodes([waiting]) == {"b": GANG, "spare": GANG}


def test_a_reserved_node_is_no_spare_for_another_job() -> None:
    other = a_job("other", on=("c",), since=NOW - PLACED_FOR_MIN)
    fleet = swapped(jobs=(other,))
    crowd: list[Node] = [a_node(f"x{number}", gpus=4) for number in range(60)]
    slow = a_node("c", conditions=(SLOW,), health=Health.DEGRADED, gpus=8)
    fleet = apply(fleet, Change(nodes=[slow, *crowd]))

    assert not plan_swaps(fleet, now=NOW).change.nodes
    free = apply(fleet, Change(nodes=[a_node("y", gpus=8)]))
    assert [node.id for node in plan_swaps(free, now=NOW).change.nodes] == ["c"]
