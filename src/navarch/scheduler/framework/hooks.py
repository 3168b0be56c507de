"""Extension points: what plugins may decide, and how a plugin registers its hooks.

A point is declared once, as a `HookPoint` of `HookRegistry`. The declaration states the type of
its functions, how those of several plugins combine, and which shortcuts the point supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)

from navarch.core.errors import InvalidError
from navarch.scheduler.config import HttpHandler
from navarch.scheduler.model.fit import UnschedulableJob
from navarch.scheduler.model.job import Job, PodSet, SubGroup, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import Amounts, CapacityVerdict
from navarch.scheduler.model.queues import Queue
from navarch.scheduler.model.scenario import Scenario

Scope = Literal["static", "node", "queue", "job", "global"]
"""What a result depends on besides the task: only labels and the like that no session changes
(`static`), also the state of the node in question (`node`), the resources of the task's queue and
its ancestors but not the node (`queue`), the resources of a job and its own tasks (`job`), or
anything at all (`global`). A session keeps a result until what it depends on has changed."""

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


class Event(NamedTuple):
    """`task` was placed on `node`, or taken away from it."""

    task: Task
    node: str


EventFn = Callable[[Event], None]
EventsFn = Callable[[Sequence[Task], Sequence[Node]], None]
"""The tasks, and in the same order their nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler:
    """What to call on each kind of event.

    The two must undo each other exactly: a session takes simulated placements back by calling the
    other one. A handler that raises stops the change, which is then taken back everywhere.
    """

    allocate_fn: EventFn | None = None
    deallocate_fn: EventFn | None = None
    allocate_all_fn: EventsFn | None = None
    """Called instead of `allocate_fn` for equal tasks of one job that were placed together."""
    deallocate_all_fn: EventsFn | None = None


class Combine(StrEnum):
    """How the results of several plugins become one."""

    SUM = "sum"
    FIRST_NON_ZERO = "first non-zero"
    ALL = "all"
    """Every plugin must agree; the first objection decides."""
    CHAIN = "chain"
    """Each plugin works on the result of the one before."""
    EACH = "each"
    """Every plugin is called; there is no result."""
    MERGE = "merge"
    """Mappings are merged, later plugins win."""
    EXCLUSIVE = "exclusive"
    """Only one plugin may register; a second is refused."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A replacement for a pass over all nodes that only finds the extremes of a figure.

    `figure` names the figure for a task, or `None` if the scores of the task do not depend on it:
    `gpu` or `cpu`, the idle or unpromised amount, among the nodes that have any. `tell` passes the
    least and the most of it to the plugin, as the pass itself would have found them.
    """

    figure: Callable[[Any], str | None]
    tell: Callable[[Any, int, int], None]


class HookOptions(TypedDict, total=False):
    """What a plugin may declare about a hook so that it is called less often."""

    vector: Callable[..., Any] | None
    """The same function for many nodes at once, with identical results."""
    only_for: Callable[[Any], bool] | None
    """The tasks (or jobs) it applies to; for all others it returns nothing, or 0."""
    any_job: bool
    """Whether equal tasks get the same result whatever their job and queue."""
    measure: Measure | None
    rank: Callable[[Any, Any], Any] | None
    """For queue orders: a key of a queue and its next job. Two queues with different ranks are in
    the order of their ranks; with equal ranks they are always in the same order. It may depend on
    the queue, the job, and on what jobs in and below the queue have, and on nothing else."""
    loss_rank: Callable[[Any, Any], Any] | None
    """For queue orders: such a key of a queue and all jobs it would have lost."""
    return_rank: Callable[[Any, Any], Any] | None
    """For queue orders: `rank` of a job of one task, as if that task had to leave its place."""
    weight: Callable[[Any], Any] | None
    """For queue orders: what `rank` reads of the job. It is the same for jobs of equal weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One function that a plugin has registered at one extension point."""

    owner: str
    fn: Callable[..., Any]
    scope: Scope
    vectorised: bool = False
    key: Callable[[Any], Any] | None = None
    """For orders by a key: the key."""
    vector: Callable[..., Any] | None = None
    only_for: Callable[[Any], bool] | None = None
    any_job: bool = False
    measure: Measure | None = None
    rank: Callable[[Any, Any], Any] | None = None
    loss_rank: Callable[[Any, Any], Any] | None = None
    return_rank: Callable[[Any, Any], Any] | None = None
    weight: Callable[[Any], Any] | None = None

    def concerns(self, task: Any) -> bool:  # noqa: ANN401
        """Return whether the hook applies to `task`."""
        return self.only_for is None or self.only_for(task)


F = TypeVar("F", bound=Callable[..., Any])


class HookPoint(Generic[F]):
    """One extension point; as an attribute of a session, the method that registers a hook."""

    def __init__(
        self,
        combine: Combine,
        signature: str,
        called: str,
        *,
        vectorised: bool = False,
        by_key: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.name = ""
        self.combine = combine
        self.signature = signature
        self.called = called
        """When the hooks are called."""
        self.vectorised = vectorised
        """Whether a function may take all nodes (or GPUs) at once, and return an array."""
        self.by_key = by_key
        """Whether an order may be given as a key."""
        self.options = frozenset(options)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.removeprefix("add_").removesuffix("_fn")

    @overload
    def __get__(self, registry: None, owner: type) -> HookPoint[F]: ...

    @overload
    def __get__(self, registry: HookRegistry, owner: type) -> Registration[F]: ...

    def __get__(self, registry: HookRegistry | None, owner: type) -> HookPoint[F] | Registration[F]:
        return self if registry is None else Registration(self, registry)


class Registration(Generic[F]):
    """The call that registers a hook at one point of one session."""

    def __init__(self, point: HookPoint[F], registry: HookRegistry) -> None:
        self._point = point
        self._registry = registry

    def __call__(
        self,
        fn: F,
        *,
        scope: Scope = "global",
        vectorised: bool = False,
        key: bool = False,
        **options: Unpack[HookOptions],
    ) -> None:
        """Register `fn`; with `key` it is a key to order by, and not a comparison.

        Raises:
            InvalidError: The point does not support this.
        """
        point, owner = self._point, self._registry.owner
        hooks = self._registry.hooks(point.name)
        if point.combine is Combine.EXCLUSIVE and hooks:
            raise InvalidError(
                f"plugin {owner!r} answers {point.name}, but so does {hooks[0].owner!r}, "
                "and only one plugin can"
            )
        if vectorised and not point.vectorised:
            raise InvalidError(f"plugin {owner!r}: {point.name} has no vectorised form")
        if key and not point.by_key:
            raise InvalidError(f"plugin {owner!r}: {point.name} takes no key")
        if scope not in get_args(Scope):
            raise InvalidError(
                f"plugin {owner!r}: scope {scope!r} is not static, node, queue, job or global"
            )
        unknown = sorted(set(options) - point.options)
        if unknown:
            raise InvalidError(f"plugin {owner!r}: {point.name} takes no option {unknown[0]!r}")
        self._registry.register(
            point.name,
            Hook(
                owner=owner,
                fn=_comparator(fn) if key else fn,
                key=fn if key else None,
                scope=scope,
                vectorised=vectorised,
                **options,
            ),
        )


class HookRegistry:
    """The hooks of a session, a list for each extension point."""

    add_queue_order_fn = HookPoint[QueueOrder](
        Combine.FIRST_NON_ZERO,
        "(left, right, left_job, right_job, left_victims, right_victims, min_gpu_memory) -> int",
        "which queue is served next, or loses a job next",
        options=("rank", "loss_rank", "return_rank", "weight"),
    )
    add_job_order_fn = HookPoint[Order](
        Combine.FIRST_NON_ZERO, "(left, right) -> int", "which job of a queue", by_key=True
    )
    """A key of scope `static` or `job` is kept until a task of the job gains or loses a place."""
    add_task_order_fn = HookPoint[Order](
        Combine.FIRST_NON_ZERO,
        "(left, right) -> int",
        "which task of a pod set",
        by_key=True,
        options=("any_job",),
    )
    add_pod_set_order_fn = HookPoint[Order](
        Combine.FIRST_NON_ZERO, "(left, right) -> int", "which pod set of a job", by_key=True
    )
    add_sub_group_set_order_fn = HookPoint[Order](
        Combine.FIRST_NON_ZERO, "(left, right) -> int", "which inner group", by_key=True
    )
    add_pre_job_allocation_fn = HookPoint[Callable[[Job], None]](
        Combine.EACH, "(job) -> None", "before a job is placed"
    )
    add_is_job_over_capacity_fn = HookPoint[JobCapacity](
        Combine.EXCLUSIVE,
        "(job, tasks) -> CapacityVerdict",
        "before a job's tasks are placed",
        options=("only_for",),
    )
    add_is_non_preemptible_job_over_queue_quota_fn = HookPoint[JobCapacity](
        Combine.EXCLUSIVE,
        "(job, tasks) -> CapacityVerdict",
        "before others are preempted for a job",
    )
    add_is_task_allocation_on_node_over_capacity_fn = HookPoint[TaskCapacity](
        Combine.EXCLUSIVE,
        "(task, job, node) -> CapacityVerdict",
        "for each node, by the predicates plugin",
    )
    add_subset_nodes_fn = HookPoint[SubsetNodes](
        Combine.CHAIN,
        "(job, group, pod_sets, tasks, nodes) -> list of node lists",
        "once per group and per pod set",
        options=("only_for",),
    )
    """`only_for` is called for the first task; if it returns `False`, the node set stays whole."""
    add_pre_predicate_fn = HookPoint[PrePredicate](
        Combine.ALL,
        "(task, job) -> reason or None",
        "before looking at nodes",
        options=("only_for", "any_job"),
    )
    add_predicate_fn = HookPoint[Predicate](
        Combine.ALL,
        "(task, job, node) -> reason or None",
        "for each node",
        options=("vector", "only_for", "any_job"),
    )
    """`vector` returns an array of `Fit`."""
    add_node_pre_order_fn = HookPoint[NodePreOrder](
        Combine.EACH, "(task, nodes) -> None", "before nodes are scored", options=("measure",)
    )
    add_node_order_fn = HookPoint[NodeScore](
        Combine.SUM,
        "(task, node) -> float or None",
        "for each node",
        vectorised=True,
        options=("vector", "only_for", "any_job"),
    )
    """`None` or NaN drops the node. `vector` takes a whole `NodeTable` and returns an array."""
    add_gpu_order_fn = HookPoint[GpuScore](
        Combine.SUM,
        "(task, node, gpu) -> float or None",
        "for each GPU a task could share",
        vectorised=True,
    )
    add_victim_cost_fn = HookPoint[Callable[[Job], float]](
        Combine.SUM,
        "(job) -> float",
        "which job of a queue loses its place first: the one that costs least",
    )
    add_on_job_unplaced_fn = HookPoint[Callable[[Job], None]](
        Combine.EACH, "(job) -> None", "after allocate found no place"
    )
    add_can_reclaim_resources_fn = HookPoint[Callable[[Job], bool]](
        Combine.EXCLUSIVE, "(job) -> bool", "before reclaim for a job"
    )
    add_reclaim_victim_filter_fn = HookPoint[VictimFilter](
        Combine.ALL, "(pending, victim) -> bool", "for each candidate"
    )
    add_preempt_victim_filter_fn = HookPoint[VictimFilter](
        Combine.ALL, "(pending, victim) -> bool", "for each candidate"
    )
    add_reclaim_scenario_validator_fn = HookPoint[ScenarioValidator](
        Combine.ALL, "(scenario) -> bool", "after a simulation that placed the job"
    )
    add_preempt_scenario_validator_fn = HookPoint[ScenarioValidator](
        Combine.ALL, "(scenario) -> bool", "after a simulation that placed the job"
    )
    add_consolidation_victim_filter_fn = HookPoint[VictimFilter](
        Combine.ALL, "(pending, victim) -> bool", "for each job that could be moved"
    )
    add_consolidation_scenario_validator_fn = HookPoint[ScenarioValidator](
        Combine.ALL,
        "(scenario) -> bool",
        "after a simulation that placed the job and all jobs that had to move",
    )
    add_on_job_solution_start_fn = HookPoint[Callable[[], None]](
        Combine.EACH, "() -> None", "before reclaim looks for victims"
    )
    add_get_queue_allocated_resources_fn = HookPoint[QueueFigure](
        Combine.EXCLUSIVE, "(queue) -> Amounts", "for the text of an eviction"
    )
    add_get_queue_deserved_resources_fn = HookPoint[QueueFigure](
        Combine.EXCLUSIVE, "(queue) -> Amounts", "for the text of an eviction"
    )
    add_get_queue_fair_share_fn = HookPoint[QueueFigure](
        Combine.EXCLUSIVE, "(queue) -> Amounts", "for the text of an eviction"
    )
    add_bind_request_mutate_fn = HookPoint[BindMutation](
        Combine.MERGE, "(task, node_name) -> mapping", "when a task is bound"
    )

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in POINTS}
        self._event_handlers: list[tuple[str, EventHandler]] = []
        self._http_handlers: dict[str, tuple[str, HttpHandler]] = {}
        self.owner = "session"
        """The plugin that registers its hooks."""

    def register(self, point: str, hook: Hook) -> None:
        """Add a hook to a point."""
        self._hooks[point].append(hook)

    def hooks(self, point: str) -> Sequence[Hook]:
        """Return the hooks of `point`, in order."""
        return self._hooks[point]

    def registrations(self) -> dict[str, list[str]]:
        """Return the plugins at every point that has hooks."""
        return {
            name: [hook.owner for hook in hooks] for name, hooks in self._hooks.items() if hooks
        }

    def add_event_handler(self, handler: EventHandler) -> None:
        """Call `handler` for every placement and every removal."""
        self._event_handlers.append((self.owner, handler))

    @property
    def event_handlers(self) -> Sequence[EventHandler]:
        """The registered event handlers, in order."""
        return [handler for _, handler in self._event_handlers]

    def add_http_handler(self, path: str, handler: HttpHandler) -> None:
        """Serve requests for `path` about this session."""
        if path in self._http_handlers:
            other = self._http_handlers[path][0]
            raise InvalidError(f"plugin {self.owner!r} answers {path}, but so does {other!r}")
        self._http_handlers[path] = (self.owner, handler)

    @property
    def http_handlers(self) -> Mapping[str, HttpHandler]:
        """The pages that plugins offer, by path."""
        return {path: handler for path, (_, handler) in self._http_handlers.items()}


POINTS: Final[Mapping[str, HookPoint[Any]]] = {
    point.name: point for point in vars(HookRegistry).values() if isinstance(point, HookPoint)
}
"""All extension points by name."""


def _comparator(key: Callable[..., Any]) -> Callable[[Any, Any], int]:
    """Return a comparison that puts the smaller `key` first."""

    def compare(left: object, right: object) -> int:
        left_key, right_key = key(left), key(right)
        return int(left_key > right_key) - int(left_key < right_key)

    return compare
