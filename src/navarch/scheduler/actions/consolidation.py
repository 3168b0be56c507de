"""Move jobs about so that a pending one fits; nobody may lose their place."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from operator import is_not

from navarch.scheduler.actions.eviction import consolidation_reason
from navarch.scheduler.actions.pending import pending_jobs
from navarch.scheduler.actions.solver.room import gpus_to_spare
from navarch.scheduler.actions.solver.signature import FailedTwins
from navarch.scheduler.actions.solver.solver import JobSolver
from navarch.scheduler.framework.gang import request_to_place
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.scenario import Scenario


def consolidate(session: Session) -> None:
    """Make room for each pending job that may be interrupted, by moving others like it."""
    if session.parameters.max_consolidation_victims == 0:
        return
    if not session.interruptible:
        return  # nobody could make room
    failed = FailedTwins(per_queue=False)
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
    solver = JobSolver(
        session,
        job,
        action="consolidation",
        victim_queue=lambda: _movable_jobs(session, job),
        validate=lambda scenario: (
            _everybody_has_a_place(scenario) and session.consolidation_scenario_validator(scenario)
        ),
        reason=lambda victim: consolidation_reason(job, victim),
    )
    statement = solver.solve()
    return statement is not None and statement.commit() is None


def _enough_gpus(session: Session, job: Job) -> bool:
    """Say whether the cluster has as many GPUs to spare as the job asks for, wherever they are."""
    return request_to_place(session, job).gpu <= gpus_to_spare(session)


def _movable_jobs(session: Session, job: Job) -> JobQueue:
    """Return whom to move, in order: at most as many as the configuration allows."""
    wanted = _may_move(session, job)
    queue = JobQueue.out_of(session, session.interruptible, wanted, victims=True)
    limit = session.parameters.max_consolidation_victims
    if limit is None or len(session.interruptible) <= limit:
        return queue
    chosen = list(islice(iter(queue.pop, None), limit))
    return JobQueue.of(session, chosen, victims=True)


def _may_move(session: Session, job: Job) -> Callable[[Job], bool]:
    """Return what says of others whether they may be moved for the job."""
    if not session.hooks("consolidation_victim_filter"):
        return partial(is_not, job)  # nobody is there to object
    return lambda other: other is not job and session.consolidation_victim_filter(job, other)


def _everybody_has_a_place(scenario: Scenario) -> bool:
    for victim in scenario.victims.values():
        for task in victim.tasks:
            if not task.placement.counts:
                return False
    return True
