"""Let a job of higher priority displace lower ones of its own queue."""

from navarch.scheduler.actions.eviction import make_room, victims_among
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job


def preempt(session: Session) -> None:
    """Place each pending job at the cost of less important ones in its queue."""

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
            victim_queue=lambda: victims_among(session, may_lose),
            validate=session.preempt_scenario_validator,
            reason=lambda victim: (
                f"job {job.name!r} (priority {job.priority}) preempted job {victim.job.name!r} "
                f"(priority {victim.job.priority}) in queue {job.queue!r}"
            ),
        )

    make_room(session, "preempt", search_for, eligible=within_quota)
