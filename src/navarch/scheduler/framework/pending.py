"""The waiting jobs: in the order in which they are served, and what more nodes would serve."""

from typing import NamedTuple

from navarch.scheduler.framework.gang import requested_quota, tasks_to_place
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.lazy_tasks import LazyTasks
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.model.request import Request


def pending_jobs(session: Session, action: str, *, preemptible_only: bool = False) -> JobQueue:
    """Return the jobs that have a pending task and enough members to start."""
    jobs = [
        job
        for job in session.waiting.jobs
        if (job.preemptible or not preemptible_only) and job.ready
    ]
    depth = session.parameters.queue_depth_per_action.get(action)
    return session.placer.queue(jobs, depth=depth)


def lost_jobs(session: Session) -> list[Job]:
    """Return the pending jobs that are in no queue that could serve them."""
    leaves = session.queues.leaves
    return [job for job in session.waiting.jobs if job.queue not in leaves]


class Demand(NamedTuple):
    """One gang that waits for machines, in the order it would be served."""

    job: str
    queue: str
    priority: int
    tasks: tuple[Request, ...]
    gpus: float


def unmet_demand(session: Session) -> tuple[Demand, ...]:
    """Return the waiting gangs that their queues allow: more nodes would help them."""
    queue = pending_jobs(session, "demand")
    found: list[Demand] = []
    while (job := queue.pop()) is not None:
        tasks = tasks_to_place(session, job, real=True)
        if session.is_job_over_capacity(job, tasks).schedulable:
            asked = gpus(requested_quota(tasks).gpu)
            if isinstance(tasks, LazyTasks):
                requests = tasks.requests
            else:
                requests = [task.request for task in tasks]
            found.append(Demand(job.name, job.queue, job.priority, tuple(requests), asked))
    return tuple(found)
