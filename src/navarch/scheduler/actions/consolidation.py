"""Move jobs so that a pending one fits; no job may lose its place."""

from itertools import islice

from navarch.scheduler.actions.eviction import make_room, victims_among
from navarch.scheduler.framework.gang import request_to_place
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Search, Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.scenario import Scenario


def consolidate(session: Session) -> None:
    """Make room for each pending job that may be interrupted, by moving others like it."""
    if session.parameters.max_consolidation_victims == 0:
        return

    def search_for(job: Job) -> Search | None:
        # The cluster needs as many GPUs to spare as the job requests, on any nodes.
        if request_to_place(session, job).gpu > session.placer.gpus_to_spare():
            return None
        return Search(
            job=job,
            action="consolidation",
            victim_queue=lambda: _movable_jobs(session, job),
            validate=lambda scenario: (
                _all_victims_keep_a_place(scenario)
                and session.consolidation_scenario_validator(scenario)
            ),
            reason=lambda victim: f"moved off {victim.node} to make room for job {job.name!r}",
        )

    make_room(session, "consolidation", search_for, preemptible_only=True, failed_per_queue=False)


def _movable_jobs(session: Session, job: Job) -> JobQueue:
    """Return the jobs to move, in order: at most as many as the configuration allows."""

    def may_move(other: Job) -> bool:
        return other is not job and session.consolidation_victim_filter(job, other)

    queue = victims_among(session, may_move)
    limit = session.parameters.max_consolidation_victims
    if limit is None or len(session.interruptible) <= limit:
        return queue
    return session.placer.queue(list(islice(iter(queue.pop, None), limit)), victims=True)


def _all_victims_keep_a_place(scenario: Scenario) -> bool:
    victims = scenario.victims.values()
    return all(task.placement.counts for victim in victims for task in victim.tasks)
