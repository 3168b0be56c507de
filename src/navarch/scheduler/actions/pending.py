"""The jobs that wait for a place, in the order they are served, and those that have one."""

from navarch.scheduler.job_queue import JobQueue
from navarch.scheduler.session import Session
from navarch.scheduler.state.job import Job
from navarch.scheduler.status import ACTIVE_ALLOCATED_MASK


def pending_jobs(session: Session, action: str, *, preemptible_only: bool = False) -> JobQueue:
    """Return the jobs that have a pending task and enough members to start."""
    jobs = [
        job
        for job in waiting_jobs(session)
        if (job.preemptible or not preemptible_only) and job.ready
    ]
    depth = session.parameters.queue_depth_per_action.get(action)
    return JobQueue.of(session, jobs, depth=depth)


def waiting_jobs(session: Session) -> list[Job]:
    """Return the jobs that have a pending task."""
    known = session.waiting
    if known is None or known[0] != len(session.changes.rows):
        jobs = [job for job in session.jobs.values() if job.has_pending]
        known = session.waiting = (len(session.changes.rows), jobs)
    return known[1]


def interruptible_jobs(session: Session) -> list[Job]:
    """Return the jobs that could make room for others: they have a place, and a queue."""
    known = session.interruptible
    if known is None or known[0] != len(session.changes.rows):
        leaves = session.queues.leaves
        jobs = [
            job
            for job in session.jobs.values()
            if job.preemptible and job.queue in leaves and job.has_any(ACTIVE_ALLOCATED_MASK)
        ]
        known = session.interruptible = (len(session.changes.rows), jobs)
    return known[1]


def lost_jobs(session: Session) -> list[Job]:
    """Return the pending jobs that are in no queue that could serve them."""
    leaves = session.queues.leaves
    return [job for job in waiting_jobs(session) if job.queue not in leaves]
