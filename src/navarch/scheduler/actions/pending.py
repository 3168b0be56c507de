"""The jobs that wait for a place, in the order they are served."""

from navarch.scheduler.job_queue import JobQueue
from navarch.scheduler.session import Session


def pending_jobs(session: Session, action: str, *, preemptible_only: bool = False) -> JobQueue:
    """Return the jobs that have a pending task and enough members to start."""
    jobs = [
        job
        for job in session.jobs.values()
        if job.has_pending and job.ready and (job.preemptible or not preemptible_only)
    ]
    depth = session.parameters.queue_depth_per_action.get(action)
    return JobQueue.of(session, jobs, depth=depth)
