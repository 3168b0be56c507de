"""A session: a private copy of the cluster, the plugins' answers about it, what was decided."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from navarch.core.errors import InvalidError
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.engine.columns import FEW, Columns
from navarch.scheduler.engine.engine import WHOLE, Engine
from navarch.scheduler.engine.job_index import JobIndex
from navarch.scheduler.engine.no_op_moves import NoOpMoveCheck
from navarch.scheduler.engine.turns import Turns
from navarch.scheduler.framework.answers import HookRunner
from navarch.scheduler.framework.budget import Budget, GaveUp
from navarch.scheduler.framework.decision import DecisionLog, DecisionSink
from navarch.scheduler.framework.events import Event, EventFn, EventHandler, EventsFn
from navarch.scheduler.framework.node_table import GPU_COLUMN, need_of
from navarch.scheduler.framework.statement import Statement
from navarch.scheduler.model.change_log import ChangeLog
from navarch.scheduler.model.claims import Claims
from navarch.scheduler.model.cluster import (
    DEFAULT_GPU_MEMORY_MIB,
    Cluster,
    QueueSpec,
    ResourceShare,
)
from navarch.scheduler.model.fit import Fit, UnschedulableJob, UnschedulableReason
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.node import WHOLE_GPU, Node
from navarch.scheduler.model.nodes import NodeList, NodesByName
from navarch.scheduler.model.placement import Booking, Hold, Placement, without_place
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.queues import QueueTree
from navarch.scheduler.model.status import (
    ACTIVE_ALLOCATED_MASK,
    ACTIVE_USED_MASK,
    ALLOCATED_MASK,
    TaskStatus,
)
from navarch.scheduler.model.task import UNPLACED, Task
from navarch.scheduler.model.task_kinds import Kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from types import TracebackType

    from navarch.scheduler.framework.plugin import Plugin
    from navarch.scheduler.framework.registry import PluginRegistry
    from navarch.scheduler.model.cluster import Device, JobSpec, TaskSpec
    from navarch.scheduler.model.pod_set import PodSet

T = TypeVar("T")

_name = attrgetter("name")
_node = attrgetter("node")

ROOMY_FROM: Final = 16
"""Where more than so many times the GPUs are idle that are asked for, few nodes will be looked at
one by one."""

FLAT_ROOT: Final = "default"
"""The one parent of all leaf queues when the hierarchy is not to count."""


class Session(HookRunner):
    """One pass over the cluster.

    Actions change it only through statements. Everything is ordered by name, so the order in
    which a snapshot lists things makes no difference.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: SchedulerConfig | None = None,
        *,
        sink: DecisionSink | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__()
        self.cluster = cluster
        self.config = config or SchedulerConfig()
        self.parameters = self.config.parameters
        self.sink: DecisionSink = sink or DecisionLog()
        self.budget = Budget(self.parameters, clock)
        self.gave_up: list[GaveUp] = []
        """Actions that ran out of their budget."""
        self.plugins: dict[str, Plugin] = {}
        self.min_gpu_memory_mib = _min_gpu_memory_mib(cluster)
        self.changes = ChangeLog()
        self.node_list = NodeList(sorted(cluster.nodes, key=_name), self.changes)
        self.nodes = NodesByName(self.node_list)
        self.queues = QueueTree(_queue_specs(cluster, self.parameters))
        self.kinds = Kinds()
        self.jobs: dict[str, Job] = {
            spec.name: Job(spec, min_gpu_memory_mib=self.min_gpu_memory_mib, kinds=self.kinds)
            for spec in sorted(cluster.jobs, key=_name)
        }
        self.waiting = JobIndex(self, attrgetter("has_pending"))
        """Jobs with a pending task."""
        self.interruptible = JobIndex(self, self._is_interruptible)
        """Jobs that could make room for others: they have a place, and a queue."""
        self.queue_ties: dict[tuple[str, str], bool] = {}
        """By two queues, whether the first is served first if both rank the same."""
        self.loss_ties: dict[tuple[str, str], bool] = {}
        """By two queues, whether the first loses first if both rank the same."""
        self.loss_ranks: dict[str, tuple[int, Job, Any]] = {}
        """By queue, what it ranks at with its next job to lose, and at which of its changes."""
        self._found: dict[tuple[TaskStatus, str], Placement] = {}
        """Where tasks that simply take what they ask for were found, one value for all alike."""
        self.claims = Claims(cluster)
        self.unschedulable_jobs: dict[str, list[UnschedulableJob]] = {}
        """Why a job was not placed by the last real attempt."""
        self.unschedulable_tasks: dict[str, list[UnschedulableReason]] = {}
        """Why a task was not placed by the last real attempt, node by node."""
        self.unplaced: dict[str, tuple[Sequence[Task], Job]] = {}
        """By job, tasks of which the first found no place by the last real attempt, with reasons
        unwritten."""
        self._load_all()

    def _is_interruptible(self, job: Job) -> bool:
        leaves = self.queues.leaves
        return job.preemptible and job.queue in leaves and job.has_any(ACTIVE_ALLOCATED_MASK)

    @property
    def now(self) -> datetime:
        """The moment the snapshot was taken; the only time there is in a session."""
        return self.cluster.now

    @property
    def seed(self) -> int:
        """The number that plugins draw chance from."""
        return self.parameters.seed

    def open(self, registry: PluginRegistry) -> None:
        """Build the configured plugins and have them register, in order."""
        for plugin in self.config.plugins:
            self.add_plugin(registry.build(plugin.name, plugin.arguments), name=plugin.name)
        if self.parameters.fast_paths:
            self.columns.sync()

    def add_plugin(self, plugin: Plugin, *, name: str | None = None) -> None:
        """Have one plugin register its answers."""
        name = name or plugin.name
        if name in self.plugins:
            raise InvalidError(f"plugin {name!r} is listed twice")
        self.plugins[name] = plugin
        self._owner = name
        plugin.on_session_open(self)
        self._owner = "session"

    @cached_property
    def columns(self) -> Columns:
        """What nodes have, as arrays."""
        return Columns(self.node_list, self.changes, self.node_list)

    @cached_property
    def engine(self) -> Engine:
        """What is known about kinds of tasks, so that equal ones need not be asked about again."""
        return Engine(self)

    @cached_property
    def turns(self) -> Turns:
        """Who of two comes first among all who wait."""
        return Turns(self)

    @cached_property
    def no_op_moves(self) -> NoOpMoveCheck:
        """Whether those who would have to leave would come back at once."""
        return NoOpMoveCheck(self)

    def forget_rankings(self) -> None:
        """Ask plugins anew about every kind of task, since one of them has changed its mind."""
        self.__dict__.pop("engine", None)
        self.__dict__.pop("return_trips", None)

    @contextmanager
    def without(self, point: str) -> Iterator[None]:
        """Have nobody answer at `point` meanwhile, to find out what would be otherwise."""
        hooks, self._hooks[point] = self._hooks[point], []
        self.forget_rankings()
        try:
            yield
        finally:
            self._hooks[point] = hooks
            self.forget_rankings()

    def close(self) -> None:
        """Let every plugin look back, in the order they were opened."""
        for plugin in self.plugins.values():
            plugin.on_session_close(self)

    def dissolve(self) -> None:
        """Let go of everything, and be of no use any more to whoever still holds the session."""
        self.__dict__.clear()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def is_over_budget(self, action: str, job: Job) -> bool:
        """Say whether an action has to stop, and write down on whose behalf it was looking."""
        return self._gives_up(action, job, self.budget.exhausted())

    def is_out_of_time(self, action: str, job: Job) -> bool:
        """Say the same of an action that simulates nothing, so that only its time counts."""
        return self._gives_up(action, job, self.budget.late())

    def _gives_up(self, action: str, job: Job, reason: str | None) -> bool:
        if reason is None:
            return False
        self.gave_up.append(
            GaveUp(action=action, job=job.name, simulations=self.budget.simulations, reason=reason)
        )
        return True

    def attempt(self, action: str = "") -> Statement:
        """Return a statement; use it in `with`, and what is not committed is taken back."""
        return Statement(self, action)

    def fit(self, task: Task, job: Job, node: Node, *, record: bool = False) -> Fit:
        """Say whether and when the task could go to the node: resources first, then predicates."""
        if not node.fits_eventually(task.request):
            if record:
                self.note_task_reason(
                    UnschedulableReason(
                        task=task.uid, node=node.name, reason="not enough resources"
                    )
                )
            return Fit.NO
        refusal = self.predicate(task, job, node)
        if refusal is None:
            return Fit.NOW if self.fits_now(task, node) else Fit.LATER
        if record:
            self.note_task_reason(refusal)
        return Fit.LATER if refusal.passes else Fit.NO

    def fits_now(self, task: Task, node: Node) -> bool:
        """Say whether idle resources and devices of the node suffice for the task."""
        if not node.fits_now(task.request):
            return False
        if not task.spec.claims or not self.parameters.dynamic_resource_allocation:
            return True
        return self.claims.choose(task, node.name, now=True) is not None

    def fitting_gpus(self, task: Task, node: Node) -> list[str]:
        """Return the shared GPUs, and whole ones as `-2`, that the task could use, best first."""
        groups = node.groups_with_room(task.request)
        whole = [WHOLE_GPU] * max(0, node.whole_gpus_free)
        return self.score_gpus(task, node, [*groups, *whole])

    def choose_devices(
        self, task: Task, node: Node, *, now: bool
    ) -> tuple[tuple[str, tuple[Device, ...]], ...]:
        """Return which devices the task's claims would stand for on the node."""
        if not task.spec.claims or not self.parameters.dynamic_resource_allocation:
            return ()
        return self.claims.choose(task, node.name, now=now) or ()

    def move(self, task: Task, after: Placement) -> None:
        """Book the task's step to another placement and tell event handlers.

        If a handler raises, the step has not happened: those told before it are told the
        opposite, and the books are as they were.
        """
        before = task.placement
        self._book(task, before, after)
        told: list[tuple[EventFn | None, Event]] = []
        try:
            if before.counts and before.node is not None:
                event = Event(task, before.node)
                for _, handler in self._event_handlers:
                    if handler.deallocate_fn is not None:
                        handler.deallocate_fn(event)
                    told.append((handler.allocate_fn, event))
            if after.counts and after.node is not None:
                event = Event(task, after.node)
                for _, handler in self._event_handlers:
                    if handler.allocate_fn is not None:
                        handler.allocate_fn(event)
                    told.append((handler.deallocate_fn, event))
        except Exception:
            self._book(task, after, before)
            for opposite, event in reversed(told):
                if opposite is not None:
                    opposite(event)
            raise

    def ask_while_leaving(self, task: Task, ask: Callable[[], T]) -> T:
        """Return what `ask` says while the task, which takes no part of a GPU, has to leave.

        Afterwards it is as if nothing had happened. Nodes, accounts and the task itself show it
        meanwhile; whoever keeps figures by the log of changes is not told, and must not look.
        """
        before = task.placement
        assert before.node is not None, f"{task} cannot leave: it has no place"
        after, event = without_place(before), Event(task, before.node)
        told: list[EventFn | None] = []
        self._show(task, before, after)
        try:
            for _, handler in self._event_handlers:
                if handler.deallocate_fn is not None:
                    handler.deallocate_fn(event)
                told.append(handler.allocate_fn)
            return ask()
        finally:
            self._show(task, after, before)
            for opposite in reversed(told):
                if opposite is not None:
                    opposite(event)

    def _show(self, task: Task, before: Placement, after: Placement) -> None:
        """Have nodes and the task itself show a step that is not written down."""
        for booking in after.bookings:
            if booking not in before.bookings:
                self.nodes[booking.node].show(task, booking, 1)
        for booking in before.bookings:
            if booking not in after.bookings:
                self.nodes[booking.node].show(task, booking, -1)
        task.placement = after
        task.job.version += 1

    def allocate(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Book equal tasks of one job, whole GPUs or none, each on what is idle on its node.

        If a handler raises, nothing has happened, as with `move`.
        """
        job = tasks[0].job
        if len(tasks) == 1:
            nodes[0].take_whole(need_of(tasks[0].request), tasks)
        else:
            self._take_many(tasks, nodes)
        self.note_change(job)
        self.queues.note_change(job.queue)
        told: list[EventHandler] = []
        try:
            for _, handler in self._event_handlers:
                if handler.allocate_all_fn is not None:
                    handler.allocate_all_fn(tasks, nodes)
                else:
                    _tell_all(None, handler.allocate_fn, tasks, nodes)
                told.append(handler)
        except Exception:
            self._release(tasks, nodes)
            for handler in reversed(told):
                _tell_all(handler.deallocate_all_fn, handler.deallocate_fn, tasks, nodes)
            raise

    def _take_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        fast, request = self.parameters.fast_paths, tasks[0].request
        need = need_of(request)
        if len(set(nodes)) == len(nodes):
            Node.take_one_each(need, tasks, nodes)
            if fast and len(nodes) > FEW:
                self.columns.take([node.index for node in nodes], [1] * len(nodes), request)
            return
        places = _by_node(tasks, nodes)
        for node, members in places:
            node.take_whole(need, members)
        if fast and len(places) > FEW:
            rows, counts = [n.index for n, _ in places], [len(each) for _, each in places]
            self.columns.take(rows, counts, request)

    def release(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Take back what `allocate` has booked."""
        self._release(tasks, nodes)
        for _, handler in self._event_handlers:
            _tell_all(handler.deallocate_all_fn, handler.deallocate_fn, tasks, nodes)

    def _release(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        request = tasks[0].request
        for node, members in _by_node(tasks, nodes):
            node.give_whole(request, members)
        for task in tasks:
            task.placement = UNPLACED[TaskStatus.PENDING]
        self.note_change(tasks[0].job)
        self.queues.note_change(tasks[0].job.queue)

    def commit(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Let what `allocate` has booked stand."""
        for task, node in zip(tasks, nodes, strict=True):
            task.placement = node.bound
        self.note_change(tasks[0].job)

    def commit_task(self, task: Task) -> None:
        """Let a committed step stand: it is no longer virtual, and what was allocated is bound."""
        now = task.placement
        status = TaskStatus.BINDING if now.status is TaskStatus.ALLOCATED else now.status
        task.placement = Placement(status, now.node, now.gpu_groups, now.bookings)
        self.note_change(task.job)

    def note_change(self, job: Job) -> None:
        """Write down that the placement of one of the job's tasks has changed."""
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
                self.nodes[booking.node].unbook(task, booking)
                self.claims.apply(task, booking, -1)
        task.placement = after
        self.note_change(task.job)
        self.queues.note_change(task.job.queue)

    def _load_all(self) -> None:
        """Book everybody where the snapshot found them, plain gangs without making their tasks."""
        rows: list[int] = []
        needs: list[tuple[int, int, int, int]] = []
        counts: list[int] = []
        others: list[PodSet] = []
        entered: list[Job] = []
        row_of = self.nodes.rows
        for job in self.jobs.values():
            for pod_set in job.pod_sets.values():
                if pod_set.untouched(~ACTIVE_USED_MASK):
                    continue
                nodes = None
                if self.parameters.fast_paths and not job.is_materialised:
                    nodes = _plain_places(job.spec)
                if nodes is None:
                    others.append(pod_set)
                    continue
                rows += map(row_of.__getitem__, nodes)
                needs.append(need_of(job.spec.tasks[0].request))
                counts.append(len(nodes))
                job.enter = self._enter
                entered.append(job)
        if rows:
            self.node_list.book(rows, needs, counts)
            self.changes.enter_all = partial(self._enter_all, entered)
        for pod_set in others:
            for task in pod_set.tasks:
                self._load(task)
        self._make_ready()

    def _make_ready(self) -> None:
        """Make the nodes and tasks that will probably be looked at one by one; all of them if so.

        Nothing is decided by it: others are made when somebody asks for them.
        """
        if not self.parameters.fast_paths:
            for job in self.jobs.values():
                assert job.tasks is not None, "asking makes them"
                for pod_set in job.pod_sets.values():
                    pod_set.shapes = ()
            return
        left = int(self.node_list.idle[:, GPU_COLUMN].sum())
        waiting = [job for job in self.jobs.values() if job.has_pending]
        unmade = [job for job in waiting if not job.is_materialised]
        wanted = sum([job.gpus_wanted for job in unmade])
        if len(unmade) < len(waiting) or wanted * ROOMY_FROM >= left:
            self.node_list.make_roomy()
        for job in unmade:
            wanted = job.gpus_wanted
            if wanted <= left:
                left -= wanted
                job.materialise()

    def _enter_all(self, jobs: Sequence[Job]) -> None:
        """Write down who is on which node, of those whose tasks were not made before."""
        self.changes.enter_all = None
        for job in jobs:
            if not job.is_materialised:
                job.materialise()

    def _enter(self, task: Task) -> None:
        """Put a task where the snapshot found it, which has been booked before."""
        spec = task.spec
        assert spec.node is not None, "plainly placed"
        place = (spec.status, spec.node)
        placement = self._found.get(place)
        if placement is None:
            placement = Placement(*place, (), (Booking(spec.node, Hold.NOW),))
            self._found[place] = placement
        task.placement = placement
        self.node_list[self.nodes.rows[spec.node]].enter(task)

    def _load(self, task: Task) -> None:
        """Book a task where the snapshot found it."""
        spec = task.spec
        hold = _hold(spec.status)
        if spec.node is None or hold is None:
            return
        booking = Booking(spec.node, hold, _groups(spec), self.claims.loaded(task))
        task.placement = Placement(spec.status, spec.node, booking.gpu_groups, (booking,))
        self.nodes[spec.node].book(task, booking, loading=True)
        if booking.devices:
            self.claims.apply(task, booking, 1)

    def forget_reasons(self, job: Job) -> None:
        """Drop what earlier attempts to place `job` found."""
        if self.unschedulable_jobs:
            self.unschedulable_jobs.pop(job.name, None)
        if self.unplaced:
            self.unplaced.pop(job.name, None)
        if self.unschedulable_tasks:
            for uid in job.tasks if job.is_materialised else ():
                self.unschedulable_tasks.pop(uid, None)

    def note_task_reason(self, refusal: UnschedulableReason) -> None:
        """Write down why a task found no place."""
        self.unschedulable_tasks.setdefault(refusal.task, []).append(refusal)

    def note_job_reason(self, job: Job, refusal: UnschedulableJob) -> None:
        """Write down why a job found no place."""
        self.unschedulable_jobs.setdefault(job.name, []).append(refusal)


def _by_node(tasks: Sequence[Task], nodes: Sequence[Node]) -> list[tuple[Node, Sequence[Task]]]:
    """Return each node with the tasks that go there."""
    found: dict[int, tuple[Node, list[Task]]] = {}
    for task, node in zip(tasks, nodes, strict=True):
        known = found.get(node.index)
        if known is None:
            found[node.index] = (node, [task])
        else:
            known[1].append(task)
    return list(found.values())


def _tell_all(
    together: EventsFn | None, one: EventFn | None, tasks: Sequence[Task], nodes: Sequence[Node]
) -> None:
    if together is not None:
        together(tasks, nodes)
    elif one is not None:
        for task, node in zip(tasks, nodes, strict=True):
            one(Event(task, node.name))


def _plain_places(spec: JobSpec) -> list[str] | None:
    """Return the nodes of tasks that look alike, if each simply takes what it asks for there."""
    first = spec.tasks[0]
    if not first.status & ALLOCATED_MASK or first.request.gpu.kind not in WHOLE or first.claims:
        return None
    nodes = list(map(_node, spec.tasks))
    return None if None in nodes else nodes


def _hold(status: TaskStatus) -> Hold | None:
    if status & ALLOCATED_MASK:
        return Hold.NOW
    if status is TaskStatus.RELEASING:
        return Hold.LEAVING
    return Hold.NEXT if status is TaskStatus.PIPELINED else None


def _groups(spec: TaskSpec) -> tuple[str, ...]:
    return spec.gpu_groups if spec.request.gpu.shared else ()


def _min_gpu_memory_mib(cluster: Cluster) -> int:
    """Return the memory of the smallest GPU: what an unplaced request for memory is measured by."""
    if cluster.min_node_gpu_memory_mib is not None:
        return cluster.min_node_gpu_memory_mib
    sizes = [n.gpu_memory_mib for n in cluster.nodes if n.gpus > 0 and n.gpu_memory_synced]
    return min(sizes, default=DEFAULT_GPU_MEMORY_MIB)


def _queue_specs(cluster: Cluster, parameters: Parameters) -> Sequence[QueueSpec]:
    """Return the queues to use: as given, or all leaves under one parent that bounds nothing."""
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
