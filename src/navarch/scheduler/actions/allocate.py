"""Place pending jobs on resources that are idle, or that are coming free."""

from navarch.scheduler.framework.decision import MarkStarted
from navarch.scheduler.framework.pending import lost_jobs, pending_jobs
from navarch.scheduler.framework.placing import admitted
from navarch.scheduler.framework.session import Session
from navarch.scheduler.framework.statement import Statement
from navarch.scheduler.model.fit import UnschedulableJob
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, ALLOCATED_MASK, TaskStatus


def allocate(session: Session) -> None:
    """Place each pending job, all that it needs or nothing; then let it compete to grow."""
    for lost in lost_jobs(session):
        exists = lost.queue in session.queues.by_name
        why = "has queues in it, so it serves no jobs" if exists else "does not exist"
        session.forget_reasons(lost)
        session.note_job_reason(lost, UnschedulableJob(summary=f"queue {lost.queue!r} {why}"))
    queue = pending_jobs(session, "allocate")
    timed = session.budget.timed
    # One statement for all jobs: after each of them it is committed or rolled back, and so empty.
    with session.attempt("allocate") as statement:
        while (job := queue.pop()) is not None:
            if timed and session.is_out_of_time("allocate", job):
                return
            if _allocate_job(session, statement, job):
                queue.push(job)


def _allocate_job(session: Session, statement: Statement, job: Job) -> bool:
    """Place the tasks of a job that are next; return whether more of its tasks are to follow."""
    session.forget_reasons(job)
    ran_before = job.count(ACTIVE_ALLOCATED_MASK) > 0
    tasks = admitted(session, job, real=True)
    if tasks is None or not session.placement(statement, job, real=True).place(
        tasks, session.node_list
    ):
        session.on_job_unplaced(job)
        return False
    # Members that were promised a place before delay the others, too.
    waits = (ran_before or statement.promises) and _must_wait(job)
    if waits:
        statement.convert_all_allocated_to_pipelined(job)
    if statement.commit() is not None:
        return False
    starts = not waits and not ran_before
    if starts and session.sink.accept(MarkStarted(job=job.name, at=session.now)) is None:
        job.last_start = session.now
    return len(tasks) < job.size and job.has_pending


def _must_wait(job: Job) -> bool:
    """Return whether some gang cannot start yet, so that all its members have to wait."""
    return any(
        pod_set.count(TaskStatus.PIPELINED)
        and pod_set.count(ALLOCATED_MASK) < pod_set.min_available
        for pod_set in job.pod_sets.values()
    )
