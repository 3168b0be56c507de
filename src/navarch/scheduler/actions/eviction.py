"""The loop of the actions that make room for pending jobs by evicting others."""

from collections.abc import Callable

from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def make_room(
    session: Session,
    queue: JobQueue,
    action: str,
    search_for: Callable[[Job], Search | None],
    *,
    failed: FailedJobs,
    eligible: Callable[[Job], bool] = lambda _job: True,
) -> None:
    """Search victims for each eligible job of the queue, until the action's budget is exhausted.

    A job without a search has failed. Later jobs that are no easier than a failed one are skipped.
    """
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
