"""Registration: how a plugin offers its answers to a session."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from navarch.core.errors import InvalidError
from navarch.scheduler.framework.events import EventHandler
from navarch.scheduler.framework.points import POINTS, Combine, Hook, Measure, Scope
from navarch.scheduler.http import HttpHandler
from navarch.scheduler.model.capacity import CapacityVerdict
from navarch.scheduler.model.fit import UnschedulableJob
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.pod_set import PodSet, SubGroup
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.model.task import Task

NodeSet = Sequence[Node]
Order = Callable[[Any, Any], int] | Callable[[Any], Any]
QueueOrder = Callable[
    [Queue, Queue, Job | None, Job | None, Sequence[Job], Sequence[Job], int], int
]
JobCapacity = Callable[[Job, Sequence[Task]], CapacityVerdict]
TaskCapacity = Callable[[Task, Job, Node], CapacityVerdict]
Subsets = Sequence[NodeSet] | UnschedulableJob
SubsetNodes = Callable[[Job, SubGroup | PodSet, Sequence[PodSet], Sequence[Task], NodeSet], Subsets]
PrePredicate = Callable[[Task, Job], str | None]
Predicate = Callable[[Task, Job, Node], str | None]
NodePreOrder = Callable[[Task, NodeSet], None]
NodeScore = Callable[[Task, Node], float | None] | Callable[[Task, Any], Any]
GpuScore = Callable[[Task, Node, str], float | None] | Callable[[Task, Node, Sequence[str]], Any]
VictimFilter = Callable[[Job, Job], bool]
ScenarioValidator = Callable[[Scenario], bool]
QueueFigure = Callable[[Queue], Amounts]
BindMutation = Callable[[Task, str], Mapping[str, str]]


class ExtensionPoints:
    """The lists of answers, one per extension point.

    `scope` states what an answer depends on (see `framework.points.Scope`); a session may keep an
    answer until that has changed. Answers default to `global`: requested every time.
    """

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in POINTS}
        self._event_handlers: list[tuple[str, EventHandler]] = []
        self._http_handlers: dict[str, tuple[str, HttpHandler]] = {}
        self._owner = "session"

    def hooks(self, point: str) -> Sequence[Hook]:
        """Return what was registered at `point`, in order."""
        return self._hooks[point]

    def registrations(self) -> dict[str, list[str]]:
        """Return, for every point somebody answers, the plugins that do."""
        return {
            name: [hook.owner for hook in hooks] for name, hooks in self._hooks.items() if hooks
        }

    def _add(
        self,
        point: str,
        fn: Callable[..., Any],
        scope: Scope,
        *,
        vectorised: bool = False,
        vector: Callable[..., Any] | None = None,
        only_for: Callable[[Any], bool] | None = None,
        any_job: bool = False,
        measure: Measure | None = None,
        key: Callable[[Any], Any] | None = None,
        rank: Callable[[Any, Any], Any] | None = None,
        loss_rank: Callable[[Any, Any], Any] | None = None,
        return_rank: Callable[[Any, Any], Any] | None = None,
        weight: Callable[[Any], Any] | None = None,
    ) -> None:
        declared = POINTS[point]
        hooks = self._hooks[point]
        if declared.combine is Combine.EXCLUSIVE and hooks:
            raise InvalidError(
                f"plugin {self._owner!r} answers {point}, but so does {hooks[0].owner!r}, "
                "and only one plugin can"
            )
        if vectorised and not declared.vectorised:
            raise InvalidError(f"plugin {self._owner!r}: {point} has no vectorised form")
        if scope not in ("static", "node", "queue", "job", "global"):
            raise InvalidError(
                f"plugin {self._owner!r}: scope {scope!r} is not static, node, queue, job or global"
            )
        hooks.append(
            Hook(
                owner=self._owner,
                fn=fn,
                scope=scope,
                vectorised=vectorised,
                vector=vector,
                only_for=only_for,
                any_job=any_job,
                measure=measure,
                key=key,
                rank=rank,
                loss_rank=loss_rank,
                return_rank=return_rank,
                weight=weight,
            )
        )

    def add_event_handler(self, handler: EventHandler) -> None:
        """Have `handler` told of every placement and every removal."""
        self._event_handlers.append((self._owner, handler))

    def add_http_handler(self, path: str, handler: HttpHandler) -> None:
        """Answer requests for `path` about this session."""
        if path in self._http_handlers:
            other = self._http_handlers[path][0]
            raise InvalidError(f"plugin {self._owner!r} answers {path}, but so does {other!r}")
        self._http_handlers[path] = (self._owner, handler)

    @property
    def http_handlers(self) -> Mapping[str, HttpHandler]:
        """The pages plugins offer, by path."""
        return {path: handler for path, (_, handler) in self._http_handlers.items()}

    def add_queue_order_fn(
        self,
        fn: QueueOrder,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        rank: Callable[[Queue, Job], Any] | None = None,
        loss_rank: Callable[[Queue, Sequence[Job]], Any] | None = None,
        return_rank: Callable[[Queue, Job], Any] | None = None,
        weight: Callable[[Job], Any] | None = None,
    ) -> None:
        """Order queues: negative if the left one comes first.

        `rank` is a key that decides where nobody has lost anything yet: two queues whose ranks
        differ are in the order of their ranks, and two whose ranks are equal are always in the
        same order. It may depend on the queue, the job, and on what jobs in and below the queue
        have, and on nothing else that changes. With `weight`, it is the same for a queue
        whichever of two jobs of equal weight is its next. `loss_rank` is the same kind of key
        where queues are to lose jobs: of the queue, and all jobs it would have lost then.
        `return_rank` is what `rank` would be of a job of one task if that had to leave.
        """
        self._add(
            "queue_order",
            fn,
            scope,
            vectorised=vectorised,
            rank=rank,
            loss_rank=loss_rank,
            return_rank=return_rank,
            weight=weight,
        )

    def add_job_order_fn(
        self, fn: Order, *, key: bool = False, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Order jobs of one queue, by comparing two or, with `key`, by a key of one.

        A key of scope `static` or `job` is asked for again only after one of the job's tasks has
        gained or lost a place.
        """
        self._add(
            "job_order",
            comparator(fn) if key else fn,
            scope,
            vectorised=vectorised,
            key=cast("Callable[[Any], Any]", fn) if key else None,
        )

    def add_task_order_fn(
        self,
        fn: Order,
        *,
        key: bool = False,
        scope: Scope = "global",
        vectorised: bool = False,
        any_job: bool = False,
    ) -> None:
        """Order tasks of one pod set, by comparing two or, with `key`, by a key of one.

        With `any_job`, tasks that ask for the same and are numbered alike are never told apart.
        """
        self._add(
            "task_order",
            comparator(fn) if key else fn,
            scope,
            vectorised=vectorised,
            key=cast("Callable[[Any], Any]", fn) if key else None,
            any_job=any_job,
        )

    def add_pod_set_order_fn(
        self, fn: Order, *, key: bool = False, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Order pod sets of one job, by comparing two or, with `key`, by a key of one."""
        self._add(
            "pod_set_order",
            comparator(fn) if key else fn,
            scope,
            vectorised=vectorised,
            key=cast("Callable[[Any], Any]", fn) if key else None,
        )

    def add_sub_group_set_order_fn(
        self, fn: Order, *, key: bool = False, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Order inner groups of one job, by comparing two or, with `key`, by a key."""
        self._add(
            "sub_group_set_order",
            comparator(fn) if key else fn,
            scope,
            vectorised=vectorised,
            key=cast("Callable[[Any], Any]", fn) if key else None,
        )

    def add_pre_job_allocation_fn(
        self, fn: Callable[[Job], None], *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Be called at the start of every attempt to place a job."""
        self._add("pre_job_allocation", fn, scope, vectorised=vectorised)

    def add_is_job_over_capacity_fn(
        self,
        fn: JobCapacity,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        only_for: Callable[[Job], bool] | None = None,
    ) -> None:
        """Say whether queues allow placing these tasks of a job. Only one plugin can.

        `only_for` says which jobs could ever be refused, by what no session changes.
        """
        self._add("is_job_over_capacity", fn, scope, vectorised=vectorised, only_for=only_for)

    def add_is_non_preemptible_job_over_queue_quota_fn(
        self, fn: JobCapacity, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether a job that cannot be interrupted stays within quota. Only one plugin can."""
        self._add("is_non_preemptible_job_over_queue_quota", fn, scope, vectorised=vectorised)

    def add_is_task_allocation_on_node_over_capacity_fn(
        self, fn: TaskCapacity, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether queues allow a task on a node. Only one plugin can."""
        self._add("is_task_allocation_on_node_over_capacity", fn, scope, vectorised=vectorised)

    def add_subset_nodes_fn(
        self,
        fn: SubsetNodes,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        only_for: Callable[[Task], bool] | None = None,
    ) -> None:
        """Split a node set into those to try for a group, best first.

        `only_for` is asked about the first task: where it says no, by what no session changes,
        the set stays whole.
        """
        self._add(
            "subset_nodes",
            fn,
            scope,
            vectorised=vectorised,
            only_for=only_for,
        )

    def add_pre_predicate_fn(
        self,
        fn: PrePredicate,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        only_for: Callable[[Task], bool] | None = None,
        any_job: bool = False,
    ) -> None:
        """Refuse a task before any node is looked at, with a reason."""
        self._add(
            "pre_predicate",
            fn,
            scope,
            vectorised=vectorised,
            only_for=only_for,
            any_job=any_job,
        )

    def add_predicate_fn(
        self,
        fn: Predicate,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        vector: Callable[..., Any] | None = None,
        only_for: Callable[[Task], bool] | None = None,
        any_job: bool = False,
    ) -> None:
        """Refuse a task on a node, with a reason.

        `vector` is the same answer as an array of `Fit`, or nothing where it never objects.
        """
        self._add(
            "predicate",
            fn,
            scope,
            vectorised=vectorised,
            vector=vector,
            only_for=only_for,
            any_job=any_job,
        )

    def add_node_pre_order_fn(
        self,
        fn: NodePreOrder,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        measure: Measure | None = None,
    ) -> None:
        """Look at all nodes once before they are scored for a task."""
        self._add(
            "node_pre_order",
            fn,
            scope,
            vectorised=vectorised,
            measure=measure,
        )

    def add_node_order_fn(
        self,
        fn: NodeScore,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        vector: Callable[..., Any] | None = None,
        only_for: Callable[[Task], bool] | None = None,
        any_job: bool = False,
    ) -> None:
        """Score a node for a task; scores add up. Nothing, or NaN, drops the node.

        `vector` is the same answer about a whole `NodeTable`, as an array.
        """
        self._add(
            "node_order",
            fn,
            scope,
            vectorised=vectorised,
            vector=vector,
            only_for=only_for,
            any_job=any_job,
        )

    def add_gpu_order_fn(
        self, fn: GpuScore, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Score a GPU that a task could share; scores add up. Nothing, or NaN, drops it."""
        self._add("gpu_order", fn, scope, vectorised=vectorised)

    def add_victim_cost_fn(
        self, fn: Callable[[Job], float], *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Tell what stopping a job would cost; costs add up, and the cheapest job goes first."""
        self._add("victim_cost", fn, scope, vectorised=vectorised)

    def add_on_job_unplaced_fn(
        self, fn: Callable[[Job], None], *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Be called when the allocate action has found no place for a job."""
        self._add("on_job_unplaced", fn, scope, vectorised=vectorised)

    def add_can_reclaim_resources_fn(
        self, fn: Callable[[Job], bool], *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether a job may take from other queues. Only one plugin can."""
        self._add("can_reclaim_resources", fn, scope, vectorised=vectorised)

    def add_reclaim_victim_filter_fn(
        self, fn: VictimFilter, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether a job of another queue may be a victim."""
        self._add("reclaim_victim_filter", fn, scope, vectorised=vectorised)

    def add_preempt_victim_filter_fn(
        self, fn: VictimFilter, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether a job of the same queue may be a victim."""
        self._add("preempt_victim_filter", fn, scope, vectorised=vectorised)

    def add_reclaim_scenario_validator_fn(
        self, fn: ScenarioValidator, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Judge the outcome of a simulated reclaim."""
        self._add("reclaim_scenario_validator", fn, scope, vectorised=vectorised)

    def add_preempt_scenario_validator_fn(
        self, fn: ScenarioValidator, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Judge the outcome of a simulated preemption."""
        self._add("preempt_scenario_validator", fn, scope, vectorised=vectorised)

    def add_consolidation_victim_filter_fn(
        self, fn: VictimFilter, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Say whether a job may be moved to make room."""
        self._add("consolidation_victim_filter", fn, scope, vectorised=vectorised)

    def add_consolidation_scenario_validator_fn(
        self, fn: ScenarioValidator, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Judge the outcome of a simulated move."""
        self._add("consolidation_scenario_validator", fn, scope, vectorised=vectorised)

    def add_on_job_solution_start_fn(
        self, fn: Callable[[], None], *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Be called before victims are looked for on behalf of one job."""
        self._add("on_job_solution_start", fn, scope, vectorised=vectorised)

    def add_get_queue_allocated_resources_fn(
        self, fn: QueueFigure, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Tell what a queue has. Only one plugin can."""
        self._add("get_queue_allocated_resources", fn, scope, vectorised=vectorised)

    def add_get_queue_deserved_resources_fn(
        self, fn: QueueFigure, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Tell what a queue is promised. Only one plugin can."""
        self._add("get_queue_deserved_resources", fn, scope, vectorised=vectorised)

    def add_get_queue_fair_share_fn(
        self, fn: QueueFigure, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Tell what a queue's fair share is. Only one plugin can."""
        self._add("get_queue_fair_share", fn, scope, vectorised=vectorised)

    def add_bind_request_mutate_fn(
        self, fn: BindMutation, *, scope: Scope = "global", vectorised: bool = False
    ) -> None:
        """Add annotations to a bind; a later plugin wins."""
        self._add("bind_request_mutate", fn, scope, vectorised=vectorised)


def comparator(key: Callable[..., Any]) -> Callable[[Any, Any], int]:
    """Return a comparison that puts the smaller `key` first."""

    def compare(left: object, right: object) -> int:
        left_key, right_key = key(left), key(right)
        return int(left_key > right_key) - int(left_key < right_key)

    return compare
