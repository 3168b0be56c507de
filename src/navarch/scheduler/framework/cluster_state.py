"""The private copy of the cluster that a session changes, and the hooks that judge it."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.framework.decision import DecisionLog, DecisionSink
from navarch.scheduler.framework.hook_runner import HookRunner
from navarch.scheduler.framework.hooks import Event, EventFn, EventHandler
from navarch.scheduler.framework.node_table import need_of
from navarch.scheduler.model.change_log import ChangeLog
from navarch.scheduler.model.claims import Claims
from navarch.scheduler.model.cluster import (
    DEFAULT_GPU_MEMORY_MIB,
    Cluster,
    QueueSpec,
    ResourceShare,
)
from navarch.scheduler.model.fit import Fit, UnschedulableJob, UnschedulableReason
from navarch.scheduler.model.job import UNPLACED, Job, Task
from navarch.scheduler.model.jobs import JobTable
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.nodes import NodeList, NodesByName
from navarch.scheduler.model.placement import Booking, Hold, Placement
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.queues import QueueTree
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, ALLOCATED_MASK, TaskStatus
from navarch.scheduler.model.task_kinds import Kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from navarch.scheduler.model.cluster import Device

_name = attrgetter("name")

FLAT_ROOT: Final = "default"
"""The only parent of all leaf queues if the hierarchy is switched off."""


class ClusterState(HookRunner):
    """Nodes, jobs, queues and claims with every booking, and the hooks of the plugins.

    Only statements change it. Everything is ordered by name, so the order in which a snapshot
    lists things makes no difference.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig | None = None,
        *,
        sink: DecisionSink | None = None,
    ) -> None:
        super().__init__()
        self.cluster = cluster
        self.config = config or SchedulerConfig()
        self.parameters = self.config.parameters
        self.sink: DecisionSink = sink or DecisionLog()
        self.min_gpu_memory_mib = _min_gpu_memory_mib(cluster)
        self.changes = ChangeLog()
        self.node_list = NodeList(sorted(cluster.nodes, key=_name), self.changes)
        self.nodes = NodesByName(self.node_list)
        self.queues = QueueTree(_queue_specs(cluster, self.parameters))
        self.kinds = Kinds()
        self.jobs = JobTable(
            sorted(cluster.jobs, key=_name),
            min_gpu_memory_mib=self.min_gpu_memory_mib,
            kinds=self.kinds,
        )
        self.claims = Claims(cluster)
        self.unschedulable_jobs: dict[str, list[UnschedulableJob]] = {}
        """The reasons why the last real attempt placed no task of a job."""
        self.unschedulable_tasks: dict[str, list[UnschedulableReason]] = {}
        """The reasons why the last real attempt did not place a task, node by node."""
        self.unplaced: dict[str, tuple[Sequence[Task], Job]] = {}
        """By job, equal tasks that fit nowhere; the reasons are found when they are requested."""

    @property
    def now(self) -> datetime:
        """The time at which the snapshot was taken; a session has no other clock."""
        return self.cluster.now

    @property
    def seed(self) -> int:
        """The seed for plugins that need randomness."""
        return self.parameters.seed

    def is_interruptible(self, job: Job) -> bool:
        """Return whether the job could make room for others: it has a place, and a queue."""
        leaves = self.queues.leaves
        return job.preemptible and job.queue in leaves and job.has_any(ACTIVE_ALLOCATED_MASK)

    def fit(self, task: Task, job: Job, node: Node, *, record: bool = False) -> Fit:
        """Return whether and when the task fits the node: resources first, then predicates."""
        if not node.fits_eventually(task.request):
            if record:
                reason = "not enough resources"
                self.note_task_reason(
                    UnschedulableReason(task=task.uid, node=node.name, reason=reason)
                )
            return Fit.NO
        refusal = self.predicate(task, job, node)
        if refusal is None:
            return Fit.NOW if self.fits_now(task, node) else Fit.LATER
        if record:
            self.note_task_reason(refusal)
        return Fit.LATER if refusal.passes else Fit.NO

    def fits_now(self, task: Task, node: Node) -> bool:
        """Return whether idle resources and devices of the node suffice for the task."""
        if not node.fits_now(task.request):
            return False
        if not task.spec.claims or not self.parameters.dynamic_resource_allocation:
            return True
        return self.claims.choose(task, node.name, now=True) is not None

    def choose_devices(
        self, task: Task, node: Node, *, now: bool
    ) -> tuple[tuple[str, tuple[Device, ...]], ...]:
        """Return the devices that the task's claims would get on the node."""
        if not task.spec.claims or not self.parameters.dynamic_resource_allocation:
            return ()
        return self.claims.choose(task, node.name, now=now) or ()

    def load(self, task: Task) -> None:
        """Book a task where the snapshot found it."""
        spec = task.spec
        if spec.node is None:
            return
        if spec.status & ALLOCATED_MASK:
            hold = Hold.NOW
        elif spec.status is TaskStatus.RELEASING:
            hold = Hold.LEAVING
        elif spec.status is TaskStatus.PIPELINED:
            hold = Hold.NEXT
        else:
            return
        groups = spec.gpu_groups if spec.request.gpu.shared else ()
        booking = Booking(spec.node, hold, groups, self.claims.loaded(task))
        task.placement = Placement(spec.status, spec.node, booking.gpu_groups, (booking,))
        self.nodes[spec.node].book(task, booking, loading=True)
        if booking.devices:
            self.claims.apply(task, booking, 1)

    def move(self, task: Task, after: Placement) -> None:
        """Book the task's step to another placement and call the event handlers.

        If a handler raises, the step has not happened: the handlers called before it receive the
        opposite event, and the books are as they were.
        """
        before = task.placement
        self._book(task, before, after)
        called: list[tuple[EventFn | None, Event]] = []
        try:
            if before.counts and before.node is not None:
                event = Event(task, before.node)
                for _, handler in self._event_handlers:
                    if handler.deallocate_fn is not None:
                        handler.deallocate_fn(event)
                    called.append((handler.allocate_fn, event))
            if after.counts and after.node is not None:
                event = Event(task, after.node)
                for _, handler in self._event_handlers:
                    if handler.allocate_fn is not None:
                        handler.allocate_fn(event)
                    called.append((handler.deallocate_fn, event))
        except Exception:
            self._book(task, after, before)
            for opposite, event in reversed(called):
                if opposite is not None:
                    opposite(event)
            raise

    def allocate(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Book equal tasks of one job, whole GPUs or none, each on what is idle on its node.

        If a handler raises, nothing has happened, as with `move`.
        """
        job, need = tasks[0].job, need_of(tasks[0].request)
        if len(tasks) == 1:
            nodes[0].allocate_whole(need, tasks)
        else:
            for node, here in _by_node(tasks, nodes).items():
                node.allocate_whole(need, here)
        self.note_change(job)
        self.queues.note_change(job.queue)
        called: list[EventHandler] = []
        try:
            for _, handler in self._event_handlers:
                if handler.allocate_all_fn is not None:
                    handler.allocate_all_fn(tasks, nodes)
                elif handler.allocate_fn is not None:
                    for task, node in zip(tasks, nodes, strict=True):
                        handler.allocate_fn(Event(task, node.name))
                called.append(handler)
        except Exception:
            self._release(tasks, nodes, reversed(called))
            raise

    def release(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Undo `allocate`."""
        self._release(tasks, nodes, self.event_handlers)

    def _release(
        self, tasks: Sequence[Task], nodes: Sequence[Node], handlers: Iterable[EventHandler]
    ) -> None:
        job, need = tasks[0].job, need_of(tasks[0].request)
        for node, here in _by_node(tasks, nodes).items():
            node.release_whole(need, here)
        for task in tasks:
            task.placement = UNPLACED[TaskStatus.PENDING]
        self.note_change(job)
        self.queues.note_change(job.queue)
        for handler in handlers:
            if handler.deallocate_all_fn is not None:
                handler.deallocate_all_fn(tasks, nodes)
            elif handler.deallocate_fn is not None:
                for task, node in zip(tasks, nodes, strict=True):
                    handler.deallocate_fn(Event(task, node.name))

    def commit(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Make permanent what `allocate` has booked."""
        for task, node in zip(tasks, nodes, strict=True):
            task.placement = node.bound
        self.note_change(tasks[0].job)

    def commit_task(self, task: Task) -> None:
        """Make a step permanent: it is no longer virtual, and what was allocated is bound."""
        now = task.placement
        status = TaskStatus.BINDING if now.status is TaskStatus.ALLOCATED else now.status
        task.placement = Placement(status, now.node, now.gpu_groups, now.bookings)
        self.note_change(task.job)

    def note_change(self, job: Job) -> None:
        """Record that the placement of one of the job's tasks has changed."""
        job.version += 1
        self.changes.jobs.append(job)

    def state(self) -> tuple[object, ...]:
        """Return everything that statements change, for comparison."""
        tasks = tuple((t.uid, t.placement) for j in self.jobs.values() for t in j.tasks.values())
        return (tasks, tuple(n.state() for n in self.nodes.values()), self.claims.state())

    def _book(self, task: Task, before: Placement, after: Placement) -> None:
        # The new bookings first: a shared GPU must not be forgotten while its only user changes.
        for booking in after.bookings:
            if booking not in before.bookings:
                self.nodes[booking.node].book(task, booking)
                self.claims.apply(task, booking, 1)
        for booking in before.bookings:
            if booking not in after.bookings:
                self.nodes[booking.node].book(task, booking, -1)
                self.claims.apply(task, booking, -1)
        task.placement = after
        self.note_change(task.job)
        self.queues.note_change(task.job.queue)

    def forget_reasons(self, job: Job) -> None:
        """Drop the reasons that earlier attempts to place `job` have recorded."""
        if self.unschedulable_jobs:
            self.unschedulable_jobs.pop(job.name, None)
        if self.unplaced:
            self.unplaced.pop(job.name, None)
        if self.unschedulable_tasks:
            for uid in job.tasks if job.is_materialised else ():
                self.unschedulable_tasks.pop(uid, None)

    def note_task_reason(self, reason: UnschedulableReason) -> None:
        """Record why a task was not placed."""
        self.unschedulable_tasks.setdefault(reason.task, []).append(reason)

    def note_job_reason(self, job: Job, reason: UnschedulableJob) -> None:
        """Record why a job was not placed."""
        self.unschedulable_jobs.setdefault(job.name, []).append(reason)


def _by_node(tasks: Sequence[Task], nodes: Sequence[Node]) -> dict[Node, list[Task]]:
    """Return the tasks of each node."""
    found: dict[Node, list[Task]] = {}
    for task, node in zip(tasks, nodes, strict=True):
        if node in found:
            found[node].append(task)
        else:
            found[node] = [task]
    return found


def _min_gpu_memory_mib(cluster: Cluster) -> int:
    """Return the memory of the smallest GPU, by which an unplaced memory request is measured."""
    if cluster.min_node_gpu_memory_mib is not None:
        return cluster.min_node_gpu_memory_mib
    sizes = [n.gpu_memory_mib for n in cluster.nodes if n.gpus > 0 and n.gpu_memory_synced]
    return min(sizes, default=DEFAULT_GPU_MEMORY_MIB)


def _queue_specs(cluster: Cluster, parameters: Parameters) -> Sequence[QueueSpec]:
    """Return the queues to use: as given, or all leaves under one unlimited parent."""
    if parameters.full_hierarchy_fairness:
        return cluster.queues
    parents = {queue.parent for queue in cluster.queues}
    leaves = [queue for queue in cluster.queues if queue.name not in parents]
    if not leaves:
        return ()
    free = ResourceShare(quota=UNLIMITED, limit=UNLIMITED, over_quota_weight=1)
    oldest = min(leaf.created_at for leaf in leaves)
    top = QueueSpec(name=FLAT_ROOT, created_at=oldest, cpu=free, memory=free, gpu=free)
    return [top, *(replace(leaf, parent=FLAT_ROOT) for leaf in leaves)]
