"""What the cluster lacks: gangs that found no place, and what they ask for."""

from collections.abc import Sequence
from typing import NamedTuple

from navarch.scheduler.actions.pending import pending_jobs
from navarch.scheduler.framework.gang import requested_quota, tasks_to_place
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.lazy_tasks import LazyMixedTasks, LazyTasks
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.task import Task


class Demand(NamedTuple):
    """One gang that waits for machines, in the order it would be served."""

    job: str
    queue: str
    priority: int
    tasks: tuple[Request, ...]
    gpus: float


def unmet_demand(session: Session) -> tuple[Demand, ...]:
    """Return the gangs that still wait, whose queues would allow them: more nodes would help."""
    queue = pending_jobs(session, "demand")
    found: list[Demand] = []
    while (job := queue.pop()) is not None:
        tasks = tasks_to_place(session, job, real=True)
        if session.is_job_over_capacity(job, tasks).schedulable:
            asked = gpus(requested_quota(tasks).gpu)
            found.append(Demand(job.name, job.queue, job.priority, _requests(tasks), asked))
    return tuple(found)


def _requests(tasks: Sequence[Task]) -> tuple[Request, ...]:
    if isinstance(tasks, LazyTasks):
        return (tasks.request,) * len(tasks)
    if isinstance(tasks, LazyMixedTasks):
        return tuple(tasks.requests)
    return tuple(task.request for task in tasks)
