"""Let a job of higher priority displace lower ones of its own queue."""

from navarch.scheduler.actions.eviction import make_room
from navarch.scheduler.actions.solver.signature import FailedJobs
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.framework.pending import pending_jobs
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def preempt(session: Session) -> None:
    """Place each pending job at the cost of less important ones in its queue."""
    if not session.interruptible:
        return  # no job could make room

    def within_quota(job: Job) -> bool:
        tasks = tasks_to_place(session, job, real=False)
        return session.is_non_preemptible_job_over_queue_quota(job, tasks).schedulable

    def search_for(job: Job) -> Search:
        def may_lose(other: Job) -> bool:
            return (
                other.queue == job.queue
                and other.priority < job.priority
                and session.preempt_victim_filter(job, other)
            )

        return Search(
            job=job,
            action="preempt",
            victim_queue=lambda: session.placer.queue_from(
                session.interruptible, may_lose, victims=True
            ),
            validate=session.preempt_scenario_validator,
            reason=lambda victim: (
                f"job {job.name!r} (priority {job.priority}) preempted job {victim.job.name!r} "
                f"(priority {victim.job.priority}) in queue {job.queue!r}"
            ),
        )

    queue, failed = pending_jobs(session, "preempt"), FailedJobs(per_queue=True)
    make_room(session, queue, "preempt", search_for, failed=failed, eligible=within_quota)
