"""The fleet and its jobs as input of the scheduler."""

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from datetime import UTC, datetime
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from navarch.catalogue.gpu_types import parse_gpu_type
from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.instance import LABEL, LEVELS
from navarch.core.job import DEFAULT_QUEUE, Job, JobState, Queue
from navarch.core.launch import Offering
from navarch.core.limits import JOBS_WAITING, TASKS_PER_JOB_MAX, TASKS_WAITING
from navarch.core.node import Node, Phase
from navarch.fleet.jobs.crash_loops import SETTLING, WINDOW, died_lately
from navarch.fleet.jobs.reservations import reserved_nodes
from navarch.scheduler.model.cluster import (
    PREFER_NO_SCHEDULE,
    Cluster,
    JobSpec,
    NodeHealth,
    NodeSpec,
    PodSetSpec,
    QueueSpec,
    ResourceShare,
    SubGroupSpec,
    Taint,
    TaskSpec,
    Toleration,
    Topology,
)
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.request import GpuKind, GpuRequest, Request
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.plugins.gpu_type_quota import TYPE_LABEL

POOL = "pool"
GPU_TYPE = TYPE_LABEL
"""The label by which quotas per GPU type select nodes."""

NETWORK = Topology(name="network", levels=tuple(f"{LABEL}{level}" for level in LEVELS))
"""The network position of nodes, as providers report it, for tasks that need to be near each other.
"""

_WISHED = "gpu-type/"
"""Prefix of the labels for requested GPU types. A node carries the label of every requested type
that its GPUs match: `h100` matches every H100, whatever its cloud calls it."""
_YES = "yes"

_RESERVED = "reserved-for-job"
"""The taint of nodes that only one job gets, with its name as the value."""

_PLENTY = 1 << 40
"""Jobs request GPUs only, so that no other resource of a machine runs out."""

_ALWAYS = datetime(2000, 1, 1, tzinfo=UTC)
"""The creation time of every queue: listed order decides."""

_FREE = ResourceShare(quota=UNLIMITED)

NO_POOL = PoolName("")


Name = TypeVar("Name", bound=str)
Record = TypeVar("Record")
Mark = TypeVar("Mark")
Spec = TypeVar("Spec")


class Specs(Generic[Name, Record, Mark, Spec]):
    """What a pure function returns for each of many records, kept while its arguments are the same.

    Records are immutable: one that is not written again remains the same object.
    """

    def __init__(self, compute: Callable[[Record, Mark | None], Spec | None]) -> None:
        self._compute = compute
        self._kept: dict[Name, tuple[Record, Mark | None, Spec | None]] = {}

    def of(
        self, records: Iterable[tuple[Name, Record]], marks: Mapping[Name, Mark]
    ) -> tuple[Spec, ...]:
        """Return the results that are not None, and forget those of all other records.

        `marks` holds the second argument of each record that has one.
        """
        before, self._kept = self._kept, {}
        for name, record in records:
            mark, kept = marks.get(name), before.get(name)
            if kept is None or kept[0] is not record or kept[1] != mark:
                kept = record, mark, self._compute(record, mark)
            self._kept[name] = kept
        return tuple([spec for _, _, spec in self._kept.values() if spec is not None])


class NodeMark(NamedTuple):
    """What a node spec depends on besides its node and what all nodes share."""

    avoided: str = ""
    """Why other nodes are to be preferred, if so."""
    suspect: bool = False
    """Whether it gets no job at all."""
    reserved_for: JobName | None = None


UNMARKED = NodeMark()


class FleetClusters:
    """Makes the clusters of one fleet after another; few records differ from each to the next."""

    def __init__(self) -> None:
        self._shared: tuple[Mapping[PoolName, Mapping[str, str]], Set[str]] = ({}, frozenset())
        self._nodes: Specs[NodeId, Node, NodeMark, NodeSpec] = Specs(self._node_spec)
        self._jobs: Specs[JobName, Job, None, JobSpec] = Specs(lambda job, _: job_spec(job))

    def cluster(self, fleet: Fleet, queues: Mapping[str, Queue], *, now: datetime) -> Cluster:
        """Return the nodes, the queues, and the jobs that are not over.

        Nodes that take no jobs now are included, because explanations of waiting jobs need them.
        Waiting jobs above the limit are not: the scheduler visits every task of a job.
        """
        stored = fleet.jobs.values()
        alive = scheduled_jobs(stored)
        wishes = {job.gpu_type for job in alive if job.gpu_type}
        dying = [job for job in stored if job.deaths]
        avoided = avoided_nodes(fleet, dying, now=now)
        suspects = died_lately(dying, since=now - SETTLING)
        reserved = reserved_nodes(alive)
        # Not the pools themselves: they change with every node that is requested.
        shared = {pool.name: pool.labels for pool in fleet.pools.values()}, wishes
        if shared != self._shared:
            self._shared, self._nodes = shared, Specs(self._node_spec)
        marks = {
            name: NodeMark(avoided.get(name, ""), name in suspects, reserved.get(name))
            for name in (*avoided, *suspects, *reserved)
        }
        nodes = self._nodes.of(fleet.nodes.items(), marks)
        there = {node.name for node in nodes}
        jobs = [(job.name, job) for job in alive if there.issuperset(job.nodes)]
        return Cluster(
            now=now,
            nodes=nodes,
            queues=queue_specs(queues.values()),
            jobs=self._jobs.of(jobs, {}),
            topologies=(NETWORK,),
        )

    def _node_spec(self, node: Node, mark: NodeMark | None) -> NodeSpec | None:
        """Return the spec of a node; None for one that is not there yet, or no more."""
        if node.registered_at is None or node.phase not in (Phase.READY, Phase.DRAINING):
            return None
        labels, wishes = self._shared
        return node_spec(node, labels.get(node.serves or NO_POOL, {}), wishes, mark or UNMARKED)


def fleet_cluster(fleet: Fleet, queues: Mapping[str, Queue], *, now: datetime) -> Cluster:
    """Return the cluster of a single fleet."""
    return FleetClusters().cluster(fleet, queues, now=now)


def avoided_nodes(fleet: Fleet, dying: Iterable[Job], *, now: datetime) -> dict[NodeId, str]:
    """Return the nodes that jobs get only if no other has room, and why.

    They may leave soon, and a job there would be interrupted again: a successor is on its way, a
    program of a `dying` job has died on them lately, or they are degraded.
    """
    found: dict[NodeId, str] = {}
    for node in fleet.nodes.values():
        if node.health is Health.DEGRADED:
            found[node.id] = "degraded"
        if node.replaces is not None and node.counts:
            found[node.replaces] = "replaced"
    for name in died_lately(dying, since=now - WINDOW):
        found[name] = "failed"
    return found


def scheduled_jobs(jobs: Iterable[Job]) -> list[Job]:
    """Return the placed jobs and the waiting ones to schedule, in the order in which they come.

    Waiting jobs above the limits are left out until some of the others have started. They are not
    submitted any more, but an earlier version may have stored them.
    """
    alive = [job for job in jobs if not job.over and not why_not_scheduled(job)]
    waiting = [job for job in alive if job.state is JobState.WAITING]
    if len(waiting) <= JOBS_WAITING.most and sum(x.tasks for x in waiting) <= TASKS_WAITING.most:
        return alive
    room = TASKS_WAITING.most
    chosen: set[JobName] = set()
    for job in sorted(waiting, key=lambda job: (-job.priority, job.submitted_at, job.name)):
        room -= job.tasks
        if room < 0 or len(chosen) == JOBS_WAITING.most:
            break
        chosen.add(job.name)
    return [job for job in alive if job.state is not JobState.WAITING or job.name in chosen]


def why_not_scheduled(job: Job) -> str | None:
    """Return why the scheduler ignores the waiting `job`; None if it does not.

    A placed job keeps its GPUs, whatever its size: it has as many tasks as nodes.
    """
    if job.state is not JobState.WAITING or job.tasks <= TASKS_PER_JOB_MAX:
        return None
    return (
        f"{job.tasks} tasks are above the limit of {TASKS_PER_JOB_MAX} tasks per job; "
        f"cancel it and submit smaller jobs: navarch job cancel {job.name}"
    )


def node_spec(
    node: Node,
    pool_labels: Mapping[str, str],
    wishes: Collection[str] = (),
    mark: NodeMark = UNMARKED,
) -> NodeSpec:
    """Return a node with its GPUs, labelled with those of `wishes` that they match.

    All other resources are unlimited.
    """
    taints = [Taint(key=mark.avoided, effect=PREFER_NO_SCHEDULE)] if mark.avoided else []
    taints += [Taint(key=_RESERVED, value=mark.reserved_for)] if mark.reserved_for else []
    gpus = node.gpus if node.gpus is not None else node.place.gpus if node.place else 0
    labels = {**pool_labels, **node.labels}
    labels |= dict(node.topology.labels) if node.topology else {}
    labels |= {POOL: node.serves or "", GPU_TYPE: node.place.gpu_type if node.place else ""}
    labels |= {
        _WISHED + wish: _YES for wish in wishes if node.place and is_of_type(node.place, wish)
    }
    # An unhealthy or waiting node is not ready.
    unwell = node.health is Health.UNHEALTHY or node.waiting
    draining = node.phase is Phase.DRAINING or node.retiring is not None
    return NodeSpec(
        name=node.id,
        cpu_milli=_PLENTY,
        memory_bytes=_PLENTY,
        gpus=gpus,
        gpu_count=gpus,
        labels=labels,
        taints=tuple(taints),
        health=NodeHealth(
            ready=not unwell,
            draining=draining,
            cordoned=not (node.serving or unwell or draining),
            suspect=mark.suspect,
        ),
    )


def queue_specs(queues: Iterable[Queue]) -> tuple[QueueSpec, ...]:
    """Return the queues, or one without bounds if there are none."""
    found = tuple(
        QueueSpec(
            name=queue.name,
            created_at=_ALWAYS,
            parent=queue.parent,
            priority=queue.priority,
            cpu=_FREE,
            memory=_FREE,
            gpu=ResourceShare(
                quota=queue.quota,
                limit=UNLIMITED if queue.limit is None else queue.limit,
                over_quota_weight=queue.weight,
            ),
        )
        for queue in queues
    )
    return found or (
        QueueSpec(name=DEFAULT_QUEUE, created_at=_ALWAYS, cpu=_FREE, memory=_FREE, gpu=_FREE),
    )


def job_spec(job: Job) -> JobSpec:
    """Return a job as a gang: all of its tasks, or none."""
    placed = job.state is JobState.PLACED
    request = _whole_gpus(job.gpus)
    selector = {POOL: str(job.pool)} if job.pool else {}
    if job.gpu_type:
        selector[_WISHED + job.gpu_type] = _YES
    tolerations = (Toleration(key=_RESERVED, value=job.name),) if job.reservation else ()
    tasks = [
        TaskSpec(
            uid=name,
            status=TaskStatus.RUNNING if placed else TaskStatus.PENDING,
            node=job.nodes[number] if placed else None,
            request=request,
            created_at=job.submitted_at,
            node_selector=selector,
            tolerations=tolerations,
        )
        for number, name in enumerate(job.task_names)
    ]
    return JobSpec(
        name=job.name,
        queue=job.queue,
        created_at=job.submitted_at,
        priority=job.priority,
        preemptible=job.preemptible,
        last_start=job.since if placed else None,
        checkpointed_at=job.checkpointed_at,
        expected_runtime=job.runtime,
        root=_all_or_none(len(tasks)),
        tasks=tuple(tasks),
    )


@cache
def _whole_gpus(count: int) -> Request:
    """Return the request of a task. Equal tasks share it, and what is derived from it."""
    return Request(gpu=GpuRequest(kind=GpuKind.WHOLE, count=count))


@cache
def _all_or_none(tasks: int) -> SubGroupSpec:
    return SubGroupSpec(pod_sets=(PodSetSpec(name="default", min_available=tasks),))


def is_of_type(offering: Offering, wish: str) -> bool:
    """Return whether the machines of an offering match a requested GPU type."""
    wanted = parse_gpu_type(wish)
    return wanted.covers(offering.gpu_type, offering.gpus, offering.instance_type)
