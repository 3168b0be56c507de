"""Calling hooks: how a session combines the results of many plugins into one."""

import math
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from navarch.scheduler.framework.hooks import Hook, HookRegistry, NodeSet, Subsets
from navarch.scheduler.model.capacity import SCHEDULABLE, CapacityVerdict
from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.fit import UnschedulableJob, UnschedulableReason
from navarch.scheduler.model.job import Job, PodSet, SubGroup, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario

T = TypeVar("T")

_uid = attrgetter("uid")
_kind = attrgetter("kind")
_age = attrgetter("created_at")


class JobOrder(NamedTuple):
    """All orders of jobs as one."""

    orders: int
    key: Callable[[Job], Any] | None
    is_kept: bool
    """Whether a key is valid until a task of its job gains or loses a place."""


class HookRunner(HookRegistry):
    """Calls the hooks of all plugins, and combines what they return."""

    def __init__(self) -> None:
        super().__init__()
        self._by_kind: tuple[int, bool] = (-1, False)
        """With this number of task orders, whether they depend on kinds only."""
        self._order_of_kind: dict[int, tuple[int, Any]] = {}
        """By kind, the number of task orders and the key they give it."""
        self._job_order = JobOrder(-1, key=None, is_kept=False)

    def compare_queues(
        self,
        left: Queue,
        right: Queue,
        jobs: tuple[Job | None, Job | None],
        victims: tuple[Sequence[Job], Sequence[Job]],
        min_gpu_memory_mib: int,
    ) -> int:
        """Return a negative number if `left` is served first."""
        for hook in self._hooks["queue_order"]:
            answer: int = hook.fn(left, right, *jobs, *victims, min_gpu_memory_mib)
            if answer:
                return answer
        return _compare((left.created_at, left.name), (right.created_at, right.name))

    def only_queue_order(self) -> Hook | None:
        """Return the order of queues if there is only one."""
        hooks = self._hooks["queue_order"]
        return hooks[0] if len(hooks) == 1 else None

    def compare_jobs(self, left: Job, right: Job) -> int:
        """Return a negative number if `left` comes first in its queue."""
        return self._first_non_zero("job_order", left, right) or _compare(
            (left.created_at, left.name), (right.created_at, right.name)
        )

    def job_key(self) -> Callable[[Job], Any] | None:
        """Return a key that orders jobs of a queue as `compare_jobs` does, if there is one."""
        return self.job_order().key

    def job_order(self) -> JobOrder:
        """Return all orders of jobs as one."""
        known, hooks = self._job_order, self._hooks["job_order"]
        if known.orders != len(hooks):
            key = _job_key([hook.key for hook in hooks])
            is_kept = key is not None and all(hook.scope in ("static", "job") for hook in hooks)
            known = self._job_order = JobOrder(len(hooks), key=key, is_kept=is_kept)
        return known

    def _task_key(self) -> Callable[[Task], Any] | None:
        keys = [hook.key for hook in self._hooks["task_order"]]
        if None in keys:
            return None
        return lambda task: (
            *(key(task) for key in keys if key is not None),
            task.created_at,
            task.uid,
        )

    @property
    def orders_tasks_by_kind(self) -> bool:
        """Whether orders have keys that are equal for equal tasks: only age and name differ."""
        hooks = self._hooks["task_order"]
        known = self._by_kind
        if known[0] != len(hooks):
            by_kind = all(hook.any_job and hook.key is not None for hook in hooks)
            known = self._by_kind = (len(hooks), by_kind)
        return known[1]

    def order_of_kind(self, kind: int, spec: TaskSpec, job: Job) -> Any:  # noqa: ANN401
        """Return the key of tasks like `spec`; only if `orders_tasks_by_kind`."""
        hooks = self._hooks["task_order"]
        known = self._order_of_kind.get(kind)
        if known is None or known[0] != len(hooks):
            task = Task(spec, job, min_gpu_memory_mib=1)
            key = tuple(hook.key(task) for hook in hooks if hook.key is not None)
            known = self._order_of_kind[kind] = (len(hooks), key)
        return known[1]

    def compare_tasks(self, left: Task, right: Task) -> int:
        """Return a negative number if `left` comes first in its pod set."""
        return self._first_non_zero("task_order", left, right) or _compare(
            (left.created_at, left.uid), (right.created_at, right.uid)
        )

    def compare_pod_sets(self, left: PodSet, right: PodSet) -> int:
        """Return a negative number if `left` comes first in its job."""
        return self._first_non_zero("pod_set_order", left, right) or _compare(left.name, right.name)

    def compare_sub_groups(self, left: SubGroup, right: SubGroup) -> int:
        """Return a negative number if `left` comes first in its job."""
        answer = self._first_non_zero("sub_group_set_order", left, right)
        return answer or _compare(left.name, right.name)

    def _first_non_zero(self, point: str, left: object, right: object) -> int:
        for hook in self._hooks[point]:
            answer: int = hook.fn(left, right)
            if answer:
                return answer
        return 0

    def sort_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return `tasks`, the one to place first in front."""
        key = self._task_key()
        if key is None:
            return sorted(tasks, key=cmp_to_key(self.compare_tasks))
        kinds = list(map(_kind, tasks))
        if self.orders_tasks_by_kind and None not in kinds:
            # The key is the same for all tasks of a kind: one call per kind is enough.
            by_kind = {
                kind: key(task)[:-2] for kind, task in dict(zip(kinds, tasks, strict=True)).items()
            }
            if len(set(by_kind.values())) == 1 and len(set(map(_age, tasks))) == 1:
                return sorted(tasks, key=_uid)
            return sorted(tasks, key=lambda task: (by_kind[task.kind], task.created_at, task.uid))
        return sorted(tasks, key=key)

    def sort_pod_sets(self, pod_sets: Sequence[PodSet]) -> list[PodSet]:
        """Return `pod_sets`, the one to place first in front."""
        if len(pod_sets) == 1:
            return list(pod_sets)
        return sorted(pod_sets, key=cmp_to_key(self.compare_pod_sets))

    def sort_sub_groups(self, groups: Sequence[SubGroup]) -> list[SubGroup]:
        """Return `groups`, the one to place first in front."""
        if not groups:
            return []
        return sorted(groups, key=cmp_to_key(self.compare_sub_groups))

    def victim_cost(self, job: Job) -> float:
        """Return what stopping `job` would cost, 0 without hooks."""
        return sum(float(hook.fn(job)) for hook in self._hooks["victim_cost"])

    def on_job_unplaced(self, job: Job) -> None:
        """Notify plugins that the allocate action found no place for `job`."""
        for hook in self._hooks["on_job_unplaced"]:
            hook.fn(job)

    def pre_job_allocation(self, job: Job) -> None:
        """Notify plugins that an attempt to place `job` begins."""
        for hook in self._hooks["pre_job_allocation"]:
            hook.fn(job)

    def on_job_solution_start(self) -> None:
        """Notify plugins that the search for victims for one job begins."""
        self._call_each("on_job_solution_start")

    def _call_each(self, point: str, *arguments: object) -> None:
        for hook in self._hooks[point]:
            hook.fn(*arguments)

    def is_job_over_capacity(self, job: Job, tasks: Sequence[Task]) -> CapacityVerdict:
        """Return whether queues allow `tasks` of `job`; without a hook, they do."""
        for hook in self._hooks["is_job_over_capacity"]:  # there is one at most
            if not hook.concerns(job):
                break
            verdict: CapacityVerdict = hook.fn(job, tasks)
            return verdict
        return SCHEDULABLE

    def is_non_preemptible_job_over_queue_quota(
        self, job: Job, tasks: Sequence[Task]
    ) -> CapacityVerdict:
        """Return whether a job that cannot be interrupted would stay within quota."""
        return self._only("is_non_preemptible_job_over_queue_quota", SCHEDULABLE, job, tasks)

    def is_task_allocation_on_node_over_capacity(
        self, task: Task, job: Job, node: Node
    ) -> CapacityVerdict:
        """Return whether queues allow `task` on `node`."""
        return self._only("is_task_allocation_on_node_over_capacity", SCHEDULABLE, task, job, node)

    def can_reclaim_resources(self, job: Job) -> bool:
        """Return whether `job` may take from other queues; without a hook, it may not."""
        return self._only("can_reclaim_resources", False, job)

    def get_queue_allocated_resources(self, queue: Queue) -> Amounts | None:
        """Return what the queue has, if a plugin counts it."""
        return self._figure("get_queue_allocated_resources", queue)

    def get_queue_deserved_resources(self, queue: Queue) -> Amounts | None:
        """Return the quota of the queue, if a plugin counts it."""
        return self._figure("get_queue_deserved_resources", queue)

    def get_queue_fair_share(self, queue: Queue) -> Amounts | None:
        """Return the fair share of the queue, if a plugin computes it."""
        return self._figure("get_queue_fair_share", queue)

    def _figure(self, point: str, queue: Queue) -> Amounts | None:
        nothing: Amounts | None = None
        return self._only(point, nothing, queue)

    def _only(self, point: str, default: T, *arguments: object) -> T:
        hooks = self._hooks[point]
        if not hooks:
            return default
        answer: T = hooks[0].fn(*arguments)
        return answer

    def subset_nodes(
        self,
        job: Job,
        group: SubGroup | PodSet,
        pod_sets: Sequence[PodSet],
        tasks: Sequence[Task],
        nodes: NodeSet,
    ) -> Subsets:
        """Return the node sets to try for a group, in order, or why there is none."""
        sets: list[NodeSet] = [nodes]
        for hook in self._hooks["subset_nodes"]:
            if hook.only_for is not None and tasks and not hook.only_for(tasks[0]):
                continue
            expanded: list[NodeSet] = []
            for node_set in sets:
                answer: Subsets = hook.fn(job, group, pod_sets, tasks, node_set)
                if isinstance(answer, UnschedulableJob):
                    return answer
                expanded.extend(answer)
            sets = expanded
        return sets

    def pre_predicate(self, task: Task, job: Job) -> UnschedulableReason | None:
        """Return why no node can hold the task, or `None`."""
        for hook in self._hooks["pre_predicate"]:
            reason = hook.fn(task, job)
            if reason:
                return UnschedulableReason(task=task.uid, reason=reason, plugin=hook.owner)
        return None

    def predicate(self, task: Task, job: Job, node: Node) -> UnschedulableReason | None:
        """Return why the node cannot hold the task, or `None`; a lasting reason comes first."""
        passing: UnschedulableReason | None = None
        for hook in self._hooks["predicate"]:
            reason = hook.fn(task, job, node)
            if not reason:
                continue
            refusal = UnschedulableReason(
                task=task.uid, node=node.name, reason=reason, plugin=hook.owner
            )
            if not refusal.passes:
                return refusal
            passing = passing or refusal
        return passing

    def score_nodes(self, task: Task, nodes: NodeSet) -> list[tuple[float, Node]]:
        """Return the nodes with their summed scores, best first, ties by name."""
        for hook in self._hooks["node_pre_order"]:
            hook.fn(task, nodes)
        hooks = self._hooks["node_order"]
        if any(hook.vectorised for hook in hooks):
            scores = _score_columns(hooks, task, nodes)
        else:
            scores = [_score(hooks, task, node) for node in nodes]
        kept = [(s, n) for s, n in zip(scores, nodes, strict=True) if not math.isnan(s)]
        kept.sort(key=lambda pair: (-pair[0], pair[1].name))
        return kept

    def score_gpus(self, task: Task, node: Node, gpus: Sequence[str]) -> list[str]:
        """Return the GPUs by summed score, best first, ties as they came."""
        totals = [0.0] * len(gpus)
        for hook in self._hooks["gpu_order"]:
            if hook.vectorised:
                answers = [float(answer) for answer in hook.fn(task, node, gpus)]
            else:
                answers = [_number(hook.fn(task, node, gpu)) for gpu in gpus]
            totals = [a + b for a, b in zip(totals, answers, strict=True)]
        ranked = [(-t, i) for i, t in enumerate(totals) if not math.isnan(t)]
        return [gpus[i] for _, i in sorted(ranked)]

    def reclaim_victim_filter(self, pending: Job, victim: Job) -> bool:
        """Return whether all plugins let `pending` take from `victim` of another queue."""
        return self._all_accept("reclaim_victim_filter", pending, victim)

    def preempt_victim_filter(self, pending: Job, victim: Job) -> bool:
        """Return whether all plugins let `pending` take from `victim` of the same queue."""
        return self._all_accept("preempt_victim_filter", pending, victim)

    def _all_accept(self, point: str, *arguments: object) -> bool:
        for hook in self._hooks[point]:  # noqa: SIM110 - called for many jobs: twice as fast
            if not hook.fn(*arguments):
                return False
        return True

    def reclaim_scenario_validator(self, scenario: Scenario) -> bool:
        """Return whether all plugins accept the outcome of a simulated reclaim."""
        return self._all_accept("reclaim_scenario_validator", scenario)

    def preempt_scenario_validator(self, scenario: Scenario) -> bool:
        """Return whether all plugins accept the outcome of a simulated preemption."""
        return self._all_accept("preempt_scenario_validator", scenario)

    def consolidation_victim_filter(self, pending: Job, victim: Job) -> bool:
        """Return whether all plugins let `pending` move `victim`."""
        return self._all_accept("consolidation_victim_filter", pending, victim)

    def consolidation_scenario_validator(self, scenario: Scenario) -> bool:
        """Return whether all plugins accept the outcome of a simulated move."""
        return self._all_accept("consolidation_scenario_validator", scenario)

    def bind_annotations(self, task: Task, node: str) -> dict[str, str]:
        """Return the annotations that plugins add to the bind of `task`."""
        merged: dict[str, str] = {}
        for hook in self._hooks["bind_request_mutate"]:
            merged.update(hook.fn(task, node))
        return merged


def _job_key(keys: Sequence[Callable[[Job], Any] | None]) -> Callable[[Job], Any] | None:
    """Return one key out of many, unless one is missing."""
    if None in keys:
        return None
    if len(keys) == 2:  # as with the default plugins
        first, second = keys
        assert first is not None, "no key is missing"
        assert second is not None, "no key is missing"
        return lambda job: (first(job), second(job), job.created_at, job.name)
    return lambda job: (
        *(key(job) for key in keys if key is not None),
        job.created_at,
        job.name,
    )


def _compare(left: Any, right: Any) -> int:  # noqa: ANN401
    return int(left > right) - int(left < right)


def _number(answer: float | None) -> float:
    return math.nan if answer is None else float(answer)


def _score(hooks: Sequence[Hook], task: Task, node: Node) -> float:
    total = 0.0
    for hook in hooks:
        answer = hook.fn(task, node)
        if answer is None:
            return math.nan
        total += answer
    return total


def _score_columns(hooks: Sequence[Hook], task: Task, nodes: NodeSet) -> list[float]:
    from navarch.scheduler.framework.node_table import NodeTable

    table = NodeTable(nodes)
    totals = [0.0] * len(nodes)
    for hook in hooks:
        if hook.vectorised:
            answers = [float(answer) for answer in hook.fn(task, table)]
        else:
            answers = [_number(hook.fn(task, node)) for node in nodes]
        totals = [a + b for a, b in zip(totals, answers, strict=True)]
    return totals
