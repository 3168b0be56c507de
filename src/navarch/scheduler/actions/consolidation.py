"""Move jobs so that a pending one fits; no job may lose its place."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from operator import is_not

from navarch.scheduler.actions.eviction import consolidation_reason
from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.gang import request_to_place
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.scenario import Scenario


def consolidate(session: Session) -> None:
    """Make room for each pending job that may be interrupted, by moving others like it."""
    if session.parameters.max_consolidation_victims == 0:
        return
    if not session.interruptible:
        return  # no job could make room
    failed = FailedJobs(per_queue=False)
    queue = pending_jobs(session, "consolidation", preemptible_only=True)
    while (job := queue.pop()) is not None:
        if session.parameters.use_scheduling_signatures and failed.include(job):
            continue
        if not _consolidate_for(session, job):
            failed.add(job)
            if session.is_over_budget("consolidation", job):
                return


def _consolidate_for(session: Session, job: Job) -> bool:
    if not _enough_gpus(session, job):
        return False
    search = Search(
        job=job,
        action="consolidation",
        victim_queue=lambda: _movable_jobs(session, job),
        validate=lambda scenario: (
            _all_victims_keep_a_place(scenario)
            and session.consolidation_scenario_validator(scenario)
        ),
        reason=lambda victim: consolidation_reason(job, victim),
    )
    statement = session.find_victims(search)
    return statement is not None and statement.commit() is None


def _enough_gpus(session: Session, job: Job) -> bool:
    """Return whether the cluster has as many GPUs to spare as the job requests, on any nodes."""
    return request_to_place(session, job).gpu <= session.placer.gpus_to_spare()


def _movable_jobs(session: Session, job: Job) -> JobQueue:
    """Return the jobs to move, in order: at most as many as the configuration allows."""
    wanted = _may_move(session, job)
    queue = session.placer.queue_from(session.interruptible, wanted, victims=True)
    limit = session.parameters.max_consolidation_victims
    if limit is None or len(session.interruptible) <= limit:
        return queue
    chosen = list(islice(iter(queue.pop, None), limit))
    return session.placer.queue(chosen, victims=True)


def _may_move(session: Session, job: Job) -> Callable[[Job], bool]:
    """Return a function that decides whether another job may be moved for the job."""
    if not session.hooks("consolidation_victim_filter"):
        return partial(is_not, job)  # no plugin objects
    return lambda other: other is not job and session.consolidation_victim_filter(job, other)


def _all_victims_keep_a_place(scenario: Scenario) -> bool:
    for victim in scenario.victims.values():
        for task in victim.tasks:
            if not task.placement.counts:
                return False
    return True
