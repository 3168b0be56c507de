"""What the actions share that make room for pending jobs by evicting others."""

from collections.abc import Callable

from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def make_room(
    session: Session,
    action: str,
    search_for: Callable[[Job], Search | None],
    *,
    eligible: Callable[[Job], bool] = lambda _job: True,
    preemptible_only: bool = False,
    failed_per_queue: bool = True,
) -> None:
    """Search victims for each eligible pending job, until the action's budget is exhausted.

    A job without a search has failed. Later jobs that are no easier than a failed one are skipped;
    with `failed_per_queue`, only those of the same queue.
    """
    if not session.waiting or not session.interruptible:
        return  # no job needs room, or none could make it
    queue = pending_jobs(session, action, preemptible_only=preemptible_only)
    failed = FailedJobs(per_queue=failed_per_queue)
    while (job := queue.pop()) is not None:
        if not eligible(job):
            continue
        if session.parameters.use_scheduling_signatures and failed.include(job):
            continue
        search = search_for(job)
        statement = None if search is None else session.find_victims(search)
        if statement is None or statement.commit() is not None:
            failed.add(job)
            if session.is_over_budget(action, job):
                return


def victims_among(session: Session, may_lose: Callable[[Job], bool]) -> JobQueue:
    """Return the interruptible jobs that may lose their places, the first to lose it in front."""
    return session.placer.queue_from(session.interruptible, may_lose, victims=True)
