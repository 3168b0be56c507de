"""Calling hooks: how a session combines the results of many plugins into one."""

import math
from collections.abc import Callable, Sequence
from functools import cmp_to_key, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from navarch.scheduler.framework.hooks import Hook, HookRegistry, NodeSet, Subsets
from navarch.scheduler.framework.node_table import NodeTable
from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.fit import UnschedulableJob, UnschedulableReason
from navarch.scheduler.model.job import Job, PodSet, SubGroup, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import SCHEDULABLE, Amounts, CapacityVerdict
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario

T = TypeVar("T")

_age_and_name = attrgetter("created_at", "name")


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
        return _compare(_age_and_name(left), _age_and_name(right))

    def only_queue_order(self) -> Hook | None:
        """Return the order of queues if there is only one."""
        hooks = self._hooks["queue_order"]
        return hooks[0] if len(hooks) == 1 else None

    def compare_jobs(self, left: Job, right: Job) -> int:
        """Return a negative number if `left` comes first in its queue."""
        return self._compare("job_order", left, right, _age_and_name)

    def _compare(self, point: str, left: object, right: object, tie: Callable[[Any], Any]) -> int:
        """Return the first result that is not zero; `tie` decides if there is none."""
        for hook in self._hooks[point]:
            answer: int = hook.fn(left, right)
            if answer:
                return answer
        return _compare(tie(left), tie(right))

    def _sort(self, point: str, items: Sequence[T], tie: Callable[[Any], Any]) -> list[T]:
        """Return the items in the order of the comparisons of a point."""
        if len(items) <= 1:
            return list(items)
        return sorted(items, key=cmp_to_key(partial(self._compare, point, tie=tie)))

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

    @property
    def orders_tasks_by_kind(self) -> bool:
        """Whether orders have keys that are equal for equal tasks: only age and name differ."""
        return all(hook.any_job and hook.key is not None for hook in self._hooks["task_order"])

    def order_of_task(self, spec: TaskSpec, job: Job) -> list[Any]:
        """Return the key of tasks like `spec`; only if `orders_tasks_by_kind`."""
        task = Task(spec, job, min_gpu_memory_mib=1)
        return [hook.key(task) for hook in self._hooks["task_order"] if hook.key is not None]

    def sort_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Return `tasks`, the one to place first in front."""
        hooks = self._hooks["task_order"]
        keys = [hook.key for hook in hooks if hook.key is not None]
        if len(keys) < len(hooks):
            return self._sort("task_order", tasks, attrgetter("created_at", "uid"))
        if self.orders_tasks_by_kind and all(task.kind is not None for task in tasks):
            # Keys are the same for all tasks of a kind: one call per kind is enough.
            kinds = {task.kind: task for task in tasks}
            by_kind = {kind: [key(task) for key in keys] for kind, task in kinds.items()}
            return sorted(tasks, key=lambda task: (by_kind[task.kind], task.created_at, task.uid))
        return sorted(
            tasks, key=lambda task: (*(key(task) for key in keys), task.created_at, task.uid)
        )

    def sort_pod_sets(self, pod_sets: Sequence[PodSet]) -> list[PodSet]:
        """Return `pod_sets`, the one to place first in front."""
        return self._sort("pod_set_order", pod_sets, attrgetter("name"))

    def sort_sub_groups(self, groups: Sequence[SubGroup]) -> list[SubGroup]:
        """Return `groups`, the one to place first in front."""
        return self._sort("sub_group_set_order", groups, attrgetter("name"))

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
        for hook in self._hooks["on_job_solution_start"]:
            hook.fn()

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
        return self._only("get_queue_allocated_resources", None, queue)

    def get_queue_deserved_resources(self, queue: Queue) -> Amounts | None:
        """Return the quota of the queue, if a plugin counts it."""
        return self._only("get_queue_deserved_resources", None, queue)

    def get_queue_fair_share(self, queue: Queue) -> Amounts | None:
        """Return the fair share of the queue, if a plugin computes it."""
        return self._only("get_queue_fair_share", None, queue)

    def _only(self, point: str, default: T, *arguments: object) -> T:
        hooks = self._hooks[point]
        answer: T = hooks[0].fn(*arguments) if hooks else default
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
        scores = _add_up(hooks, nodes, NodeTable(nodes), task)
        kept = [(s, n) for s, n in zip(scores, nodes, strict=True) if not math.isnan(s)]
        kept.sort(key=lambda pair: (-pair[0], pair[1].name))
        return kept

    def score_gpus(self, task: Task, node: Node, gpus: Sequence[str]) -> list[str]:
        """Return the GPUs by summed score, best first, ties as they came."""
        totals = _add_up(self._hooks["gpu_order"], gpus, gpus, task, node)
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
    """Return one key out of many, then age and name, unless one is missing."""
    if None in keys:
        return None
    if len(keys) == 2:  # as with the default plugins: a flat key takes less time to compare
        first, second = keys
        assert first is not None, "no key is missing"
        assert second is not None, "no key is missing"
        return lambda job: (first(job), second(job), job.created_at, job.name)
    return lambda job: ([key(job) for key in keys if key], job.created_at, job.name)


def _compare(left: Any, right: Any) -> int:  # noqa: ANN401
    return int(left > right) - int(left < right)


def _add_up(
    hooks: Sequence[Hook], choices: Sequence[Any], table: object, *context: object
) -> list[float]:
    """Return the sum of all scores of each choice, NaN if a plugin drops it.

    A vectorised hook takes all choices at once, as `table`.
    """
    totals = [0.0] * len(choices)
    for hook in hooks:
        if hook.vectorised:
            answers = hook.fn(*context, table)
        else:
            answers = [
                None if math.isnan(total) else hook.fn(*context, choice)
                for total, choice in zip(totals, choices, strict=True)
            ]
        totals = [
            math.nan if answer is None else total + float(answer)
            for total, answer in zip(totals, answers, strict=True)
        ]
    return totals
