"""Jobs: gives waiting jobs GPUs, and protects the GPUs that jobs hold."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from navarch.control.pools.loads import Readings
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import JobState
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import FleetClusters
from navarch.fleet.jobs.placement import JobPlan, plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.ports.clock import Clock, Offload
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Committed, Store
from navarch.state.index import Index

LOOK_EVERY = timedelta(seconds=30)
"""How often waiting jobs are scheduled even if nothing has changed but the time: they age, and
other jobs become old enough to be evicted."""

PAUSE = timedelta(seconds=1)
"""Between two rounds for which only nodes have changed. In a large fleet one always has."""

PART_OF_TIME = 10
"""A round is followed by a pause this many times as long, so that most of the time is left for
other work."""

KEEP = timedelta(hours=24)
"""How long a job that is over can be listed. Its history stays in the journal."""

PLACEMENT = JobName("")
"""The key of the placement of all jobs, which no job has."""


class JobController(Controller):
    """Runs the scheduler whenever jobs, nodes or its configuration have changed."""

    name = "jobs"
    queue: WorkQueue[JobName]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        offload: Offload,
        index: Index,
        *,
        scheduling: Callable[[], Scheduling],
    ) -> None:
        super().__init__(clock, store, [PLACEMENT] if store.fleet().jobs else [])
        self._offload = offload
        self._index = index
        self._scheduling = scheduling
        self._scheduled_with: Scheduling | None = None
        self._clusters = FleetClusters()
        self._pause_ends = self._looked_at = self._round_ends = clock.now()
        self._reported: set[tuple[JobName, str]] = set()
        """Searches that were given up, so that each is reported once."""
        for job in store.fleet().jobs.values():
            if job.over:
                self.queue.add_at(job.name, job.since + KEEP)

    def on_commit(self, committed: Committed) -> None:
        """Queue the placement if jobs, nodes or the configuration have changed."""
        for job in committed.change.jobs:
            if job.over:
                self.queue.add_at(job.name, job.since + KEEP)
        if not committed.after.jobs and not committed.before.jobs:
            return
        if _moves_jobs(committed) or self._scheduling() != self._scheduled_with:
            # A round for each of many submissions would leave no time for anything else.
            self.queue.add_by(PLACEMENT, max(self._clock.now(), self._round_ends))
        elif committed.before.nodes is not committed.after.nodes:
            self.queue.add_by(PLACEMENT, self._pause_ends)
        elif committed.change.jobs:
            self.queue.add_by(PLACEMENT, self._looked_at + LOOK_EVERY)

    async def reconcile(self, keys: Sequence[JobName]) -> None:
        """Place the jobs that can be placed, and forget those that are long over."""
        now, fleet = self._clock.now(), self._store.fleet()
        jobs = [fleet.jobs[name] for name in keys if name in fleet.jobs]
        old = [job.name for job in jobs if job.over and now >= job.since + KEEP]
        if old:
            await self._store.commit(Change(forget_jobs=old), based_on=fleet.revision)
        elif PLACEMENT in keys and fleet.jobs:
            await self._place(fleet, now)

    async def _place(self, fleet: Fleet, now: datetime) -> None:
        scheduling = self._scheduled_with = self._scheduling()
        if self._index.jobs.is_quiet:
            self._reported.clear()
            self._looked_at, self._pause_ends = now, now + PAUSE
            return
        is_complete = self._index.jobs.is_complete
        began = self._clock.monotonic()
        plan = await self._offload.run(
            lambda: plan_jobs(
                fleet,
                scheduling,
                now=now,
                stopwatch=self._clock.monotonic,
                clusters=self._clusters,
                is_complete=is_complete,
            )
        )
        took = timedelta(seconds=self._clock.monotonic() - began)
        change = self._with_news(fleet, plan, now)
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        self._looked_at = now
        self._round_ends = now + 2 * took
        self._pause_ends = now + max(PAUSE, PART_OF_TIME * took)
        if plan.wake_at is not None:
            self.queue.add_by(PLACEMENT, max(plan.wake_at, self._pause_ends))
        if self._index.jobs.waiting:
            self.queue.add_by(PLACEMENT, max(now + LOOK_EVERY, self._pause_ends))

    def _with_news(self, fleet: Fleet, plan: JobPlan, now: datetime) -> Change:
        """Return the change, with an event for every search given up for the first time."""
        if not plan.gave_up and not self._reported:
            return plan.change
        waiting = {job.name for job in fleet.jobs.values() if job.state is JobState.WAITING}
        self._reported = {each for each in self._reported if each[0] in waiting}
        events: list[Event] = []
        for gave_up in plan.gave_up:
            search = (JobName(gave_up.job), gave_up.action)
            if search in self._reported:
                continue
            self._reported.add(search)
            reason = f"{gave_up.action} gave up looking for room after {gave_up.reason}"
            event = Event(
                at=now, about=about("job", gave_up.job), kind="job.gave_up", reason=reason
            )
            events.append(event)
        if not events:
            return plan.change
        return evolve(plan.change, events=[*plan.change.events, *events])


def _moves_jobs(committed: Committed) -> bool:
    """Return whether a job was submitted, placed, interrupted or ended, or is forgotten."""
    before = committed.before.jobs
    return bool(committed.change.forget_jobs) or any(
        (known := before.get(job.name)) is None or known.state is not job.state
        for job in committed.change.jobs
    )


class JobAwareNotifier:
    """A workload notifier for which a node is not empty while a job holds GPUs there."""

    def __init__(self, index: Index, others: WorkloadNotifier) -> None:
        self._index = index
        self._others = others
        self.name = others.name
        # The scheduler of jobs reads cordons and drains from the fleet.
        self.cordon, self.uncordon, self.drain = others.cordon, others.uncordon, others.drain

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node`, and no job holds a part of it."""
        if self._index.jobs.on_node(node):
            return False
        return await self._others.is_drained(node)


class HeldReadings:
    """Readings in which GPUs that a job holds, or that are reserved for one, are in use.

    A job that has not started yet must not lose its GPUs for being idle.
    """

    def __init__(self, index: Index, readings: Readings) -> None:
        self._index = index
        self._readings = readings

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never reported."""
        said = self._readings.utilization(nodes)
        used, jobs = zip(nodes, said, strict=True), self._index.jobs
        reserved = jobs.reserved
        return [
            100.0 if node in reserved or jobs.on_node(node) else percent for node, percent in used
        ]
