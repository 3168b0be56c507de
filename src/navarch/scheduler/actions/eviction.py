"""The texts shown to the owner of a stopped task."""

from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.quantity import Amounts, gpus


def reclaim_reason(session: Session, job: Job, victim: Task) -> str:
    """Return why `victim` had to give its place to `job` of another queue."""
    return (
        f"resources were reclaimed from queue {victim.job.queue!r}{_figures(session, victim.job)} "
        f"by job {job.name!r} of queue {job.queue!r}{_figures(session, job)}"
    )


def preempt_reason(job: Job, victim: Task) -> str:
    """Return why `victim` had to give its place to a job of its own queue."""
    return (
        f"job {job.name!r} (priority {job.priority}) preempted job {victim.job.name!r} "
        f"(priority {victim.job.priority}) in queue {job.queue!r}"
    )


def consolidation_reason(job: Job, victim: Task) -> str:
    """Return why `victim` had to move."""
    return f"moved off {victim.node} to make room for job {job.name!r}"


def _figures(session: Session, job: Job) -> str:
    queue = session.queues.by_name[job.queue]
    allocated = session.get_queue_allocated_resources(queue)
    deserved = session.get_queue_deserved_resources(queue)
    fair = session.get_queue_fair_share(queue)
    if allocated is None or deserved is None or fair is None:
        return ""
    return f" (has {_gpu(allocated)}, quota {_gpu(deserved)}, fair share {_gpu(fair)} GPUs)"


def _gpu(amounts: Amounts) -> str:
    return "unlimited" if amounts.gpu < 0 else f"{gpus(amounts.gpu):g}"
