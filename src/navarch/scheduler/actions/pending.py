"""The jobs that wait for a place, in the order they are served."""

from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job


def pending_jobs(session: Session, action: str, *, preemptible_only: bool = False) -> JobQueue:
    """Return the jobs that have a pending task and enough members to start."""
    jobs = [
        job
        for job in session.waiting.jobs
        if (job.preemptible or not preemptible_only) and job.ready
    ]
    depth = session.parameters.queue_depth_per_action.get(action)
    return JobQueue.of(session, jobs, depth=depth)


def lost_jobs(session: Session) -> list[Job]:
    """Return the pending jobs that are in no queue that could serve them."""
    leaves = session.queues.leaves
    return [job for job in session.waiting.jobs if job.queue not in leaves]
