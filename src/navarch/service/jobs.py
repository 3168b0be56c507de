"""The API for jobs. The job controller decides which of them get GPUs."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta

from navarch.autoscale.strategies import Work
from navarch.control.runtime.controller import retried
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, Explanation, Subject, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import DEFAULT_QUEUE, Job, JobState
from navarch.core.limits import JOBS_WAITING, TASKS_PER_JOB_MAX, TASKS_WAITING
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import fleet_cluster, scheduled_jobs, why_not_scheduled
from navarch.fleet.jobs.crash_loops import find_dying_node
from navarch.fleet.jobs.demand import growth, work_of
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.ports.api import JobRequest
from navarch.ports.clock import Clock, Offload
from navarch.ports.store import Store
from navarch.scheduler.explain import why_job
from navarch.scheduler.plugins.gpu_type_quota import GpuTypeQuota
from navarch.state.index import Index

GPUS_MAX = 64
PRIORITY_MAX = 1_000_000

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?")


class JobService:
    """Serves JobApi around one store."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        index: Index,
        offload: Offload,
        scheduling: Callable[[], Scheduling],
    ) -> None:
        """`index` is of the whole fleet, also if `store` shows a part of it."""
        self._clock = clock
        self._store = store
        self._index = index
        self._offload = offload
        self._scheduling = scheduling

    @retried
    async def submit_job(self, request: JobRequest) -> Job:
        """Submit a job; the same request again changes nothing."""
        check_request(request)
        fleet = self._store.fleet()
        known = fleet.jobs.get(request.name)
        asked = {field.name: getattr(request, field.name) for field in fields(request)}
        if known is not None and not known.over:
            if all(getattr(known, name) == value for name, value in asked.items()):
                return known
            raise NotPossibleError(
                f"a job {request.name} exists already with another request; "
                f"cancel it first, or choose another name"
            )
        self._check_place(fleet, request)
        _check_room(fleet, self._index.jobs.waiting, request)
        now = self._clock.now()
        # A job that is submitted again under its name has died where it died before.
        deaths = known.deaths if known is not None else ()
        job = Job(**asked, submitted_at=now, since=now, reason="submitted", deaths=deaths)
        each = f"{job.gpus} GPUs each" if job.gpus > 1 else "1 GPU each"
        size = f"{job.tasks} tasks with {each}" if job.tasks > 1 else f"{job.gpus} GPUs"
        return await self._write(fleet, job, "job.submitted", f"requests {size}")

    def _check_place(self, fleet: Fleet, request: JobRequest) -> None:
        queues = self._scheduling().queues
        known = [name for name in queues if not any(q.parent == name for q in queues.values())]
        if request.queue not in (known or [DEFAULT_QUEUE]):
            below = request.queue in queues
            what = "has child queues; submit to one of those" if below else "does not exist"
            raise InvalidError(
                f"queue: {request.queue} {what}; choose one of {', '.join(known) or DEFAULT_QUEUE}"
            )
        if request.pool is None:
            return
        pool = fleet.pools.get(request.pool)
        if pool is None or pool.deleted:
            names = sorted(pool.name for pool in fleet.pools.values() if not pool.deleted)
            raise InvalidError(
                f"pool: {request.pool} does not exist; choose one of {', '.join(names) or 'none'}"
            )
        most = max(offering.gpus for offering in pool.offerings)
        if request.gpus > most:
            raise InvalidError(
                f"gpus: a task has its GPUs on one node, and those of pool {pool.name} have "
                f"{most}; ask for more tasks with fewer GPUs each"
            )

    async def list_jobs(self, *, queue: str | None = None, over: bool = False) -> Sequence[Job]:
        """Return jobs in the order of their submission."""
        found = [
            _shown(job)
            for job in self._store.fleet().jobs.values()
            if (over or not job.over) and (queue is None or job.queue == queue)
        ]
        return sorted(found, key=lambda job: (job.submitted_at, job.name))

    async def get_job(self, name: JobName) -> Job:
        """Return one job."""
        return _shown(_found(self._store.fleet(), name))

    async def cancel_job(self, name: JobName, *, reason: str) -> Job:
        """Cancel a queued or running job."""
        return await self._end(name, JobState.CANCELLED, reason.strip() or "cancelled by hand")

    async def finish_job(self, name: JobName) -> Job:
        """Mark a job as done and release its GPUs."""
        return await self._end(name, JobState.FINISHED, "its work is done")

    @retried
    async def _end(self, name: JobName, state: JobState, why: str) -> Job:
        fleet = self._store.fleet()
        job = _found(fleet, name)
        if job.state is state:
            return job
        if job.over:
            raise NotPossibleError(f"job {name} is {job.state.value} already")
        if state is JobState.FINISHED and job.state is JobState.WAITING:
            raise NotPossibleError(
                f"job {name} has no GPUs, so its work cannot be done; to end it: "
                f"navarch job cancel {name}"
            )
        ended = job.to(state, at=self._clock.now(), reason=why)
        return await self._write(fleet, ended, f"job.{state.value}", why)

    @retried
    async def checkpoint_job(self, name: JobName) -> Job:
        """Record that a job has written a checkpoint just now."""
        fleet = self._store.fleet()
        job = _found(fleet, name)
        if job.state is not JobState.PLACED:
            raise NotPossibleError(f"job {name} is {job.state.value}; only one that runs has work")
        saved = evolve(job, checkpointed_at=self._clock.now())
        await self._store.commit(Change(jobs=[saved]), based_on=fleet.revision)
        return saved

    @retried
    async def requeue_job(
        self,
        name: JobName,
        *,
        reason: str,
        placed_at: datetime | None = None,
        node: NodeId | None = None,
    ) -> Job:
        """Release the GPUs of a placed job after its program has stopped, and requeue the job."""
        why = reason.strip() or "requeued by hand"
        fleet = self._store.fleet()
        job = _found(fleet, name)
        if job.over:
            raise NotPossibleError(f"job {name} is {job.state.value} already")
        other_placement = placed_at is not None and job.since != placed_at
        if job.state is JobState.WAITING or other_placement:
            return job
        if node is not None and node not in job.nodes:
            raise InvalidError(
                f"node: job {name} does not run on {node}; "
                f"name one of {', '.join(dict.fromkeys(job.nodes))}, or none"
            )
        now = self._clock.now()
        died_on = node or find_dying_node(fleet, job)
        after = job if died_on is None else job.died_on(died_on, at=now)
        waiting = after.to(JobState.WAITING, at=now, reason=why)
        because = () if died_on is None else (about("node", died_on),)
        return await self._write(fleet, waiting, "job.interrupted", why, because=because)

    async def explain_job(self, name: JobName) -> Explanation:
        """Return the reasons for the state of a job, from the present fleet."""
        fleet = self._store.fleet()
        job = _found(fleet, name)
        if job.state is not JobState.WAITING:
            words = {
                JobState.PLACED: "has all its GPUs",
                JobState.FINISHED: "has finished",
                JobState.CANCELLED: "was cancelled",
            }
            since = f"{job.since:%Y-%m-%d %H:%M:%S} UTC"
            return _explanation(job, f"{words[job.state]}: {job.reason} (since {since})")
        if (why := why_not_scheduled(job)) is not None:
            return _explanation(job, f"waits: {why}")
        scheduled = scheduled_jobs(fleet.jobs.values())
        if all(each.name != name for each in scheduled):
            text = f"waits: {len(scheduled)} jobs are scheduled first, and more would be too many"
            return _explanation(job, text)
        scheduling, now = self._scheduling(), self._clock.now()
        found = await self._offload.run(
            lambda: why_job(
                fleet_cluster(fleet, scheduling.queues, now=now),
                scheduling.config,
                name,
                clock=self._clock.monotonic,
            )
        )
        attempt = found.attempt
        if attempt is None or attempt.placed == attempt.of:
            return found
        if {refusal.rule for refusal in attempt.refusals} == {GpuTypeQuota.name}:
            return found  # A quota by type of GPU would refuse new nodes too.
        more = growth(fleet, job, missing=attempt.of - attempt.placed)
        return replace(found, remedies=(*found.remedies, *more))

    async def _write(
        self, fleet: Fleet, job: Job, kind: str, reason: str, *, because: tuple[Subject, ...] = ()
    ) -> Job:
        event = Event(
            at=self._clock.now(),
            about=about("job", job.name),
            kind=kind,
            reason=reason,
            because=because,
            facts={"phase": job.state.value},
        )
        await self._store.commit(Change(jobs=[job], events=[event]), based_on=fleet.revision)
        return job


class JobQueue:
    """The jobs of the fleet as a source of metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def work(self, pool: PoolName) -> Sequence[Work]:
        """Return the jobs that run on `pool` or are queued for it."""
        return work_of(self._store.fleet(), pool)


def check_request(request: JobRequest) -> None:
    """Raise InvalidError, naming the field, if `request` is not valid."""
    if not _NAME.fullmatch(request.name):
        raise InvalidError(
            f"name: {request.name!r} must be lower-case letters, digits, dashes, dots and "
            "underscores, begin and end with a letter or digit, and have at most 100 characters"
        )
    for field, most in (("tasks", TASKS_PER_JOB_MAX), ("gpus", GPUS_MAX)):
        value = getattr(request, field)
        if not 1 <= value <= most:
            raise InvalidError(f"{field}: must be 1 to {most}, not {value}")
    if not 0 <= request.priority <= PRIORITY_MAX:
        raise InvalidError(f"priority: must be 0 to {PRIORITY_MAX}")
    if request.runtime is not None and request.runtime <= timedelta(0):
        raise InvalidError("runtime: must be longer than zero")


def _check_room(fleet: Fleet, names: Iterable[JobName], request: JobRequest) -> None:
    """Raise NotPossibleError if too much would wait: each round of the scheduler visits it all.

    `names` are the waiting jobs; those in `fleet` count.
    """
    waiting = [fleet.jobs[name].tasks for name in names if name in fleet.jobs]
    JOBS_WAITING.check_room(len(waiting) + 1)
    TASKS_WAITING.check_room(sum(waiting) + request.tasks)


def _found(fleet: Fleet, name: JobName) -> Job:
    job = fleet.jobs.get(name)
    if job is None:
        raise NotFoundError(f"job not found: {name}; `navarch job list --all` shows the jobs")
    return job


def _shown(job: Job) -> Job:
    """Return `job`, with the reason if it is kept from the scheduler."""
    why = why_not_scheduled(job)
    return job if why is None else evolve(job, reason=why)


def _explanation(job: Job, words: str) -> Explanation:
    summary = f"job {job.name} {words}"
    return Explanation(job=job.name, queue=job.queue, state=job.state.value, summary=summary)
