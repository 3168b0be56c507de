"""Let a job of higher priority displace lower ones of its own queue."""

from navarch.scheduler.actions.eviction import preempt_reason
from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def preempt(session: Session) -> None:
    """Place each pending job at the cost of less important ones in its queue."""
    if not session.interruptible:
        return  # no job could make room
    failed = FailedJobs(per_queue=True)
    queue = pending_jobs(session, "preempt")
    while (job := queue.pop()) is not None:
        tasks = tasks_to_place(session, job, real=False)
        if not session.is_non_preemptible_job_over_queue_quota(job, tasks).schedulable:
            continue
        if session.parameters.use_scheduling_signatures and failed.include(job):
            continue
        if not _preempt_for(session, job):
            failed.add(job)
            if session.is_over_budget("preempt", job):
                return


def _preempt_for(session: Session, job: Job) -> bool:
    search = Search(
        job=job,
        action="preempt",
        victim_queue=lambda: session.placer.queue_from(
            session.interruptible,
            lambda other: _may_lose(session, job, other),
            victims=True,
        ),
        validate=session.preempt_scenario_validator,
        reason=lambda victim: preempt_reason(job, victim),
    )
    statement = session.find_victims(search)
    return statement is not None and statement.commit() is None


def _may_lose(session: Session, job: Job, other: Job) -> bool:
    return (
        other.queue == job.queue
        and other.priority < job.priority
        and session.preempt_victim_filter(job, other)
    )
