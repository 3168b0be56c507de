"""Job placement: which jobs get GPUs, which lose them, and why."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState
from navarch.core.node import Node, Phase
from navarch.fleet.jobs.cluster import FleetClusters
from navarch.fleet.jobs.crash_loops import SETTLING
from navarch.fleet.jobs.reservations import ended_reservations
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.jobs.swaps import plan_swaps
from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.framework.budget import GaveUp
from navarch.scheduler.framework.decision import Bind, Decision, Evict, net_decisions

NAMED_MAX = 8
"""How many nodes a reason names; a large job has hundreds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """The changes of jobs to commit now."""

    change: Change
    gave_up: tuple[GaveUp, ...] = ()
    """Searches that exceeded their budget: a job may wait although it could be placed."""
    wake_at: datetime | None = None
    """When to plan again although nothing has changed."""


def plan_jobs(
    fleet: Fleet,
    scheduling: Scheduling,
    *,
    now: datetime,
    stopwatch: Callable[[], float] | None = None,
    clusters: FleetClusters | None = None,
    is_complete: bool = False,
) -> JobPlan:
    """Return which jobs are placed, and which wait again.

    With `clusters`, the plan costs what has changed since the last one that was made with it. If
    the fleet `is_complete`, every node of a job is known to be ready, so that no job is lost.
    A job that has lost a node is recorded first and placed in the next round: its loss must be
    stored before it gets other GPUs. Stragglers are swapped out while no job waits.
    """
    missed = () if is_complete else lost_jobs(fleet)
    lost = [job.to(JobState.WAITING, at=now, reason=why) for job, why in missed]
    if lost:
        return JobPlan(change=_written(lost, now))
    stored = fleet.jobs.values()
    reserving = [job for job in stored if job.reservation is not None]
    if ended := ended_reservations(fleet, reserving, now=now):
        jobs, events = zip(*ended, strict=True)
        return JobPlan(change=Change(jobs=jobs, events=events), wake_at=now)
    swaps = plan_swaps(fleet, now=now)
    reserved_until = [job.reservation.until for job in reserving if job.reservation is not None]
    moments = [moment for moment in (swaps.wake_at, *reserved_until) if moment is not None]
    is_idle = all(job.state is not JobState.WAITING for job in stored)
    if is_idle or not swaps.change.empty:
        return JobPlan(change=swaps.change, wake_at=min(moments, default=None))
    clusters = clusters or FleetClusters()
    cluster = clusters.cluster(fleet, scheduling.queues, now=now)
    result = run_cycle(cluster, scheduling.config, clock=stopwatch)
    changed = decided_jobs(fleet, net_decisions(result.decisions), now)
    moments += [job.deaths[-1].at + SETTLING for job in stored if job.deaths]
    wake_at = min((moment for moment in moments if moment > now), default=None)
    return JobPlan(change=_written(changed, now), gave_up=result.gave_up, wake_at=wake_at)


def lost_jobs(fleet: Fleet) -> Iterable[tuple[Job, str]]:
    """Yield the jobs that have lost a node, and why."""
    for job in fleet.jobs.values():
        if job.state is not JobState.PLACED:
            continue
        for name in job.nodes:
            node = fleet.nodes.get(name)
            if node is not None and node.phase is Phase.READY:
                continue  # as nearly all are
            why = _why_lost(job, name, node)
            if why:
                yield job, why
                break


def _why_lost(job: Job, name: NodeId, node: Node | None) -> str:
    if node is None or node.phase in (Phase.TERMINATING, Phase.GONE):
        return f"node {name} is gone"
    if node.phase is Phase.DRAINING and job.preemptible:
        why = node.retiring.reason if node.retiring else node.cordoned
        return f"node {name} is drained: {why}" if why else f"node {name} is drained"
    return ""


def decided_jobs(fleet: Fleet, decisions: Iterable[Decision], now: datetime) -> list[Job]:
    """Return the jobs that decisions change. A gang without all its tasks bound gets nothing."""
    bound: dict[JobName, dict[str, NodeId]] = {}
    changed: dict[JobName, Job] = {}
    for decision in decisions:
        match decision:
            case Bind():
                places = bound.setdefault(JobName(decision.job), {})
                places[decision.task] = NodeId(decision.node)
            case Evict():
                job = fleet.jobs[JobName(decision.job)]
                if job.state is JobState.PLACED:
                    reason = f"{decision.action}: {decision.reason}"
                    if decision.beneficiary is not None:
                        reason = f"makes room for job {decision.beneficiary} ({decision.action})"
                    changed[job.name] = job.to(JobState.WAITING, at=now, reason=reason)
            case _:
                continue
    for name, places in bound.items():
        job = fleet.jobs[name]
        if job.state is JobState.WAITING and len(places) == job.tasks:
            nodes = tuple(places[task] for task in job.task_names)
            names = list(dict.fromkeys(nodes))
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            reason = f"on {', '.join(names[:NAMED_MAX])}{more}"
            changed[name] = job.to(JobState.PLACED, at=now, reason=reason, nodes=nodes)
    return list(changed.values())


def _written(jobs: Iterable[Job], now: datetime) -> Change:
    jobs = list(jobs)
    events = [
        Event(
            at=now,
            about=about("job", job.name),
            kind="job.placed" if job.state is JobState.PLACED else "job.interrupted",
            reason=job.reason,
            facts={"phase": job.state.value},
        )
        for job in jobs
    ]
    return Change(jobs=jobs, events=events)
