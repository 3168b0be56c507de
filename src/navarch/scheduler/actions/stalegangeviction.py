"""Stop jobs that have run for too long with fewer members than they need."""

from navarch.scheduler.framework.decision import MarkStale
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.status import ALLOCATED_MASK


def evict_stale_gangs(session: Session) -> None:
    """Stop what is left of each gang that has lacked members for longer than the grace period."""
    grace = session.parameters.staleness_grace
    for job in session.jobs.made():
        if not job.stale:
            if job.stale_since is not None:
                _mark(session, job, MarkStale(job=job.name, since=None))
            continue
        since = job.stale_since
        if since is None:
            since = session.now
            _mark(session, job, MarkStale(job=job.name, since=since))
        if grace is None or session.now - since < grace:
            continue
        reason = f"job {job.name!r} has run with too few members since {since.isoformat()}"
        with session.attempt("stalegangeviction") as statement:
            for task in job.tasks_in(ALLOCATED_MASK):
                statement.evict(task, reason)
            statement.commit()


def _mark(session: Session, job: Job, decision: MarkStale) -> None:
    if session.sink.accept(decision) is None:
        job.stale_since = decision.since
