"""The job reconciler: gives waiting jobs GPUs, and keeps what they hold from being taken away."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from navarch.control.usage import Readings
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState
from navarch.core.node import Node
from navarch.core.table import Table
from navarch.fleet.jobs.placement import JobPlan, gpus_held, plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.offload import Offload
from navarch.ports.store import Committed, Store

LOOK_EVERY = timedelta(seconds=30)
"""Waiting jobs are looked at again this often even if nothing has changed but the time: they age,
and others become old enough to be stopped."""

PAUSE = timedelta(seconds=1)
"""Between two looks for which only nodes have changed. In a large fleet one always has."""

PART_OF_TIME = 10
"""A look that takes long is followed by a pause so many times as long, so that most of the time is
left for everything else."""

KEEP = timedelta(hours=24)
"""How long a job that is over can still be listed. Its story stays in the journal."""

_NEVER = datetime.max.replace(tzinfo=UTC)


class JobReconciler:
    """Has the scheduler look at jobs whenever jobs, nodes or the configuration have changed."""

    name = "jobs"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        offload: Offload,
        *,
        scheduling: Callable[[], Scheduling],
    ) -> None:
        self._clock = clock
        self._store = store
        self._offload = offload
        self._scheduling = scheduling
        self._looked_at: tuple[Table[JobName, Job], Table[NodeId, Node], Scheduling] | None = None
        self._known: Table[JobName, Job] | None = None
        self._forget_at = _NEVER
        self._next_look = clock.now()
        self._pause_ends = clock.now()
        self._told: set[tuple[JobName, str]] = set()
        """Searches that were given up, so that each is told once."""
        self.on_sooner: Callable[[], None] = lambda: None
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Place what can be placed, and forget what is long over."""
        now, fleet = self._clock.now(), self._store.fleet()
        if not fleet.jobs:
            return None
        if now >= self._oldest_ends(fleet):
            old = [job.name for job in fleet.jobs.values() if job.over and now >= job.since + KEEP]
            await self._store.commit(Change(forget_jobs=old), based_on=fleet.revision)
            return now
        wake_at = self._due(fleet, now)
        if wake_at > now:
            return _moment(wake_at)
        await self._look(fleet, now)
        return _moment(min(self._next_look, self._forget_at))

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        fleet = self._store.fleet()
        if not fleet.jobs:
            return None
        return _moment(min(self._due(fleet, self._clock.now()), self._oldest_ends(fleet)))

    def _changed(self, committed: Committed) -> None:
        if committed.after.jobs:
            self.on_sooner()

    def _oldest_ends(self, fleet: Fleet) -> datetime:
        """Return when a job is first to be forgotten. Every commit asks, and few change jobs."""
        if self._known is not fleet.jobs:
            self._known = fleet.jobs
            ends = (job.since + KEEP for job in fleet.jobs.values() if job.over)
            self._forget_at = min(ends, default=_NEVER)
        return self._forget_at

    def _due(self, fleet: Fleet, now: datetime) -> datetime:
        if self._looked_at is None:
            return now
        jobs, nodes, scheduling = self._looked_at
        if jobs is not fleet.jobs or scheduling != self._scheduling():
            return now
        return self._next_look if nodes is fleet.nodes else self._pause_ends

    async def _look(self, fleet: Fleet, now: datetime) -> None:
        scheduling = self._scheduling()
        began = self._clock.monotonic()
        plan = await self._offload.run(
            lambda: plan_jobs(fleet, scheduling, now=now, stopwatch=self._clock.monotonic)
        )
        took = timedelta(seconds=self._clock.monotonic() - began)
        change = self._with_news(fleet, plan, now)
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        self._looked_at = (fleet.jobs, fleet.nodes, scheduling)
        self._pause_ends = now + max(PAUSE, PART_OF_TIME * took)
        waits = any(job.state is JobState.WAITING for job in fleet.jobs.values())
        self._next_look = max(now + LOOK_EVERY, self._pause_ends) if waits else _NEVER

    def _with_news(self, fleet: Fleet, plan: JobPlan, now: datetime) -> Change:
        """Return the change, with a note for every search that was given up for the first time."""
        waiting = {job.name for job in fleet.jobs.values() if job.state is JobState.WAITING}
        self._told = {told for told in self._told if told[0] in waiting}
        events: list[Event] = []
        for gave_up in plan.gave_up:
            told = (JobName(gave_up.job), gave_up.action)
            if told in self._told:
                continue
            self._told.add(told)
            reason = f"{gave_up.action} gave up looking for room after {gave_up.reason}"
            event = Event(
                at=now, about=about("job", gave_up.job), kind="job.gave_up", reason=reason
            )
            events.append(event)
        if not events:
            return plan.change
        return Change(jobs=plan.change.jobs, events=[*plan.change.events, *events])


def _moment(at: datetime) -> datetime | None:
    return None if at == _NEVER else at


class JobAwareNotifier:
    """A workload notifier for which a node is not empty while a job of ours holds GPUs there."""

    def __init__(self, store: Store, others: WorkloadNotifier) -> None:
        self._store = store
        self._others = others
        self.name = others.name

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start nothing new on `node`. Our own scheduler sees that for itself."""
        await self._others.cordon(node, reason)

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        await self._others.uncordon(node)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere; jobs that may be moved are, by their own loop."""
        await self._others.drain(node, reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node`, and no job holds a part of it."""
        jobs = self._store.fleet().jobs
        if jobs and node in gpus_held(jobs):
            return False
        return await self._others.is_drained(node)


class HeldReadings:
    """Readings in which GPUs that a job holds are in use, whatever it does with them.

    Somebody who was given GPUs and has not started yet must not lose them for being idle.
    """

    def __init__(self, store: Store, readings: Readings) -> None:
        self._store = store
        self._readings = readings
        self._jobs: Table[JobName, Job] | None = None
        self._held: dict[NodeId, int] = {}

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never said."""
        said = self._readings.utilization(nodes)
        fleet = self._store.fleet()
        if self._jobs is not fleet.jobs:
            self._jobs, self._held = fleet.jobs, gpus_held(fleet.jobs)
        if not self._held:
            return said
        return [
            100.0 if node in self._held else used for node, used in zip(nodes, said, strict=True)
        ]
