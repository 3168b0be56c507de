"""Take back for a queue what others use beyond their fair share."""

from navarch.scheduler.actions.eviction import make_room, victims_among
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.quantity import Amounts, gpus


def reclaim(session: Session) -> None:
    """Let each pending job with a claim on more resources take them from other queues."""

    def search_for(job: Job) -> Search:
        def may_lose(other: Job) -> bool:
            return other.queue != job.queue and session.reclaim_victim_filter(job, other)

        session.on_job_solution_start()
        return Search(
            job=job,
            action="reclaim",
            victim_queue=lambda: victims_among(session, may_lose),
            validate=session.reclaim_scenario_validator,
            reason=lambda victim: (
                f"resources were reclaimed from {_describe_queue(session, victim.job)} "
                f"by job {job.name!r} of {_describe_queue(session, job)}"
            ),
        )

    make_room(session, "reclaim", search_for, eligible=session.can_reclaim_resources)


def _describe_queue(session: Session, job: Job) -> str:
    """Return the name of the job's queue with its GPUs, for the owner of a stopped task."""
    queue = session.queues.by_name[job.queue]
    allocated = session.get_queue_allocated_resources(queue)
    deserved = session.get_queue_deserved_resources(queue)
    fair = session.get_queue_fair_share(queue)
    if allocated is None or deserved is None or fair is None:
        return f"queue {job.queue!r}"
    has, quota, share = (_gpus(amounts) for amounts in (allocated, deserved, fair))
    return f"queue {job.queue!r} (has {has}, quota {quota}, fair share {share} GPUs)"


def _gpus(amounts: Amounts) -> str:
    return "unlimited" if amounts.gpu < 0 else f"{gpus(amounts.gpu):g}"
