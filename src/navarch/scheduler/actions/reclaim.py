"""Take back for a queue what others use beyond their fair share."""

from navarch.scheduler.actions.eviction import reclaim_reason
from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def reclaim(session: Session) -> None:
    """Let each pending job with a claim on more resources take them from other queues."""
    if not session.interruptible:
        return  # no job could make room
    failed = FailedJobs(per_queue=True)
    queue = pending_jobs(session, "reclaim")
    while (job := queue.pop()) is not None:
        if not session.can_reclaim_resources(job):
            continue
        if session.parameters.use_scheduling_signatures and failed.include(job):
            continue
        if not _reclaim_for(session, job):
            failed.add(job)
            if session.is_over_budget("reclaim", job):
                return


def _reclaim_for(session: Session, job: Job) -> bool:
    session.on_job_solution_start()
    search = Search(
        job=job,
        action="reclaim",
        victim_queue=lambda: _victims(session, job),
        validate=session.reclaim_scenario_validator,
        reason=lambda victim: reclaim_reason(session, job, victim),
    )
    statement = session.find_victims(search)
    return statement is not None and statement.commit() is None


def _victims(session: Session, job: Job) -> JobQueue:
    """Return the jobs that may lose a place to the job, in order."""

    def may_lose(other: Job) -> bool:
        return other.queue != job.queue and session.reclaim_victim_filter(job, other)

    return session.placer.queue_from(session.interruptible, may_lose, victims=True)
