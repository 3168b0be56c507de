"""The extension points: what plugins may answer, and how answers of several plugins combine."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

Scope = Literal["static", "node", "queue", "job", "global"]
"""What an answer depends on besides the task: only labels and the like that no session changes
(`static`), also the state of the node asked about (`node`), or anything at all (`global`). What a
task's queue and those above it have, but not which node is asked about, is `queue`; what a job and
its own tasks have, as orders of jobs may look at, is `job`."""


class Combine(StrEnum):
    """How the answers of several providers become one."""

    SUM = "sum"
    FIRST_NON_ZERO = "first non-zero"
    ALL = "all"
    """Every provider must agree; the first objection decides."""
    ANY = "any"
    """One provider that agrees is enough."""
    CHAIN = "chain"
    """Each provider works on what the one before returned."""
    EACH = "each"
    """Every provider is called; there is nothing to combine."""
    MERGE = "merge"
    """Mappings are merged, later providers win."""
    EXCLUSIVE = "exclusive"
    """There can be only one provider; a second is refused."""


@dataclass(frozen=True, slots=True)
class Point:
    """One extension point."""

    name: str
    combine: Combine
    signature: str
    asked: str
    vectorised: str = ""
    """The signature of the array form, where there is one."""


_ROWS: Final = (
    Point(
        "queue_order",
        Combine.FIRST_NON_ZERO,
        "(left, right, left_job, right_job, left_victims, right_victims, min_gpu_memory) -> int",
        "which queue is served next, or loses a job next",
    ),
    Point("job_order", Combine.FIRST_NON_ZERO, "(left, right) -> int", "which job of a queue"),
    Point("task_order", Combine.FIRST_NON_ZERO, "(left, right) -> int", "which task of a pod set"),
    Point(
        "pod_set_order", Combine.FIRST_NON_ZERO, "(left, right) -> int", "which pod set of a job"
    ),
    Point(
        "sub_group_set_order", Combine.FIRST_NON_ZERO, "(left, right) -> int", "which inner group"
    ),
    Point("pre_job_allocation", Combine.EACH, "(job) -> None", "before a job is placed"),
    Point(
        "is_job_over_capacity",
        Combine.EXCLUSIVE,
        "(job, tasks) -> CapacityVerdict",
        "before a job's tasks are placed",
    ),
    Point(
        "is_non_preemptible_job_over_queue_quota",
        Combine.EXCLUSIVE,
        "(job, tasks) -> CapacityVerdict",
        "before others are preempted for a job",
    ),
    Point(
        "is_task_allocation_on_node_over_capacity",
        Combine.EXCLUSIVE,
        "(task, job, node) -> CapacityVerdict",
        "for each node, by the predicates plugin",
    ),
    Point(
        "subset_nodes",
        Combine.CHAIN,
        "(job, group, pod_sets, tasks, nodes) -> list of node lists",
        "once per group and per pod set",
    ),
    Point("pre_predicate", Combine.ALL, "(task, job) -> reason or None", "before looking at nodes"),
    Point("predicate", Combine.ALL, "(task, job, node) -> reason or None", "for each node"),
    Point("node_pre_order", Combine.EACH, "(task, nodes) -> None", "before nodes are scored"),
    Point(
        "node_order",
        Combine.SUM,
        "(task, node) -> float or None",
        "for each node",
        vectorised="(task, nodes) -> array",
    ),
    Point(
        "gpu_order",
        Combine.SUM,
        "(task, node, gpu) -> float or None",
        "for each GPU a task could share",
        vectorised="(task, node, gpus) -> array",
    ),
    Point(
        "victim_cost",
        Combine.SUM,
        "(job) -> float",
        "which job of a queue loses its place first: the one that costs least",
    ),
    Point("on_job_unplaced", Combine.EACH, "(job) -> None", "after allocate found no place"),
    Point("can_reclaim_resources", Combine.EXCLUSIVE, "(job) -> bool", "before reclaim for a job"),
    Point("reclaim_victim_filter", Combine.ALL, "(pending, victim) -> bool", "for each candidate"),
    Point("preempt_victim_filter", Combine.ALL, "(pending, victim) -> bool", "for each candidate"),
    Point(
        "reclaim_scenario_validator",
        Combine.ALL,
        "(scenario) -> bool",
        "after a simulation that placed the job",
    ),
    Point(
        "preempt_scenario_validator",
        Combine.ALL,
        "(scenario) -> bool",
        "after a simulation that placed the job",
    ),
    Point(
        "consolidation_victim_filter",
        Combine.ALL,
        "(pending, victim) -> bool",
        "for each job that could be moved",
    ),
    Point(
        "consolidation_scenario_validator",
        Combine.ALL,
        "(scenario) -> bool",
        "after a simulation that placed the job and everybody who had to move",
    ),
    Point("on_job_solution_start", Combine.EACH, "() -> None", "before reclaim looks for victims"),
    Point(
        "get_queue_allocated_resources",
        Combine.EXCLUSIVE,
        "(queue) -> Amounts",
        "for the text of an eviction",
    ),
    Point(
        "get_queue_deserved_resources",
        Combine.EXCLUSIVE,
        "(queue) -> Amounts",
        "for the text of an eviction",
    ),
    Point(
        "get_queue_fair_share",
        Combine.EXCLUSIVE,
        "(queue) -> Amounts",
        "for the text of an eviction",
    ),
    Point(
        "bind_request_mutate",
        Combine.MERGE,
        "(task, node_name) -> mapping",
        "when a task is bound",
    ),
)

POINTS: Final = {point.name: point for point in _ROWS}


@dataclass(frozen=True, slots=True)
class Measure:
    """How a look at all nodes can be spared that only finds the extremes of one figure.

    `figure` names it for a task, or nothing if the task's scores do not depend on it: `gpu` or
    `cpu`, what of it is idle or will be unpromised, among the nodes that have any. `tell` hands
    the least and the most of it to the plugin, as the look itself would have found them.
    """

    figure: Callable[[Any], str | None]
    tell: Callable[[Any, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One plugin's answer at one extension point."""

    owner: str
    fn: Callable[..., Any]
    scope: Scope
    vectorised: bool = False
    vector: Callable[..., Any] | None = None
    """The same answer about many nodes at once, bit by bit the same."""
    only_for: Callable[[Any], bool] | None = None
    """The tasks it has an opinion on; on all others `fn` says nothing, or nought."""
    any_job: bool = False
    """Whether equal tasks get the same answer whichever job and queue they belong to."""
    measure: Measure | None = None
    key: Callable[[Any], Any] | None = None
    """Where the answer is an order by a key: the key."""
    rank: Callable[[Any, Any], Any] | None = None
    """Of queue orders: a key of a queue and its next job that decides where keys differ."""
    loss_rank: Callable[[Any, Any], Any] | None = None
    """Of queue orders: such a key of a queue and those it is to lose, where no job is next."""
    return_rank: Callable[[Any, Any], Any] | None = None
    """Of ranks: what it would be if the job, of one task that has a place, had to leave it."""
    weight: Callable[[Any], Any] | None = None
    """Of ranks: what of the job it depends on, where that is not everything."""

    def concerns(self, task: Any) -> bool:  # noqa: ANN401
        """Say whether the answer about `task` can be anything but nothing."""
        return self.only_for is None or self.only_for(task)
