"""Jobs and tasks of a file, to and from the scheduler's values."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType, field

from navarch.scheduler.model.cluster import (
    PREEMPTIBLE_BELOW,
    AffinityTerm,
    JobSpec,
    Name,
    PodSetSpec,
    SubGroupSpec,
    TaskSpec,
    Toleration,
    TopologyConstraint,
)
from navarch.scheduler.model.request import GpuKind, GpuRequest, Request
from navarch.scheduler.model.status import STATUS_BY_TITLE
from navarch.scheduler.snapshot.document import (
    Amount,
    Count,
    Entry,
    Minutes,
    Period,
    Positive,
    Seconds,
    copy_as,
    given,
)

Fraction = Annotated[float, Meta(ge=0.01, le=1)]


class PodSetEntry(Entry, frozen=True, kw_only=True):
    """A pod set."""

    name: Name
    min_available: Count
    topology: TopologyConstraint | None = field(name="topology_constraint", default=None)


class SubGroupEntry(Entry, frozen=True, kw_only=True):
    """A group of pod sets and further groups."""

    name: str = ""
    topology: TopologyConstraint | None = field(name="topology_constraint", default=None)
    groups: tuple[SubGroupEntry, ...] = ()
    pod_sets: tuple[PodSetEntry, ...] = ()

    @classmethod
    def of(cls, group: SubGroupSpec) -> SubGroupEntry:
        """Return the entry for `group`."""
        return cls.like(
            group,
            groups=tuple(map(cls.of, group.groups)),
            pod_sets=tuple(map(PodSetEntry.like, group.pod_sets)),
        )


class GpuEntry(Entry, frozen=True, kw_only=True):
    """The GPU part of a request; each type has fields of its own."""

    type: GpuKind
    count: Count | UnsetType = UNSET
    fraction: Fraction | UnsetType = UNSET
    memory_mib: Positive | UnsetType = UNSET
    devices: Positive | UnsetType = UNSET
    instances: dict[str, Count] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Check that the fields of this type of request are present."""
        for name in FIELDS_OF_GPU_KIND[self.type]:
            if getattr(self, name) is UNSET and name != "devices":
                raise ValueError(f"{name} is missing")

    @classmethod
    def of(cls, gpu: GpuRequest) -> GpuEntry:
        """Return the entry for `gpu`."""
        values = {"instances": gpu.mig} | {
            name: getattr(gpu, name) for name in ("count", "fraction", "memory_mib", "devices")
        }
        return cls(type=gpu.kind, **{name: values[name] for name in FIELDS_OF_GPU_KIND[gpu.kind]})

    def to_request(self) -> GpuRequest:
        """Return the request; a count of 0 requests no GPU."""
        if self.type is GpuKind.NONE or (self.type is GpuKind.WHOLE and not given(self.count)):
            return GpuRequest()
        values = {name: getattr(self, name) for name in FIELDS_OF_GPU_KIND[self.type]}
        if "instances" in values:
            values["mig"] = values.pop("instances")
        return GpuRequest(
            kind=self.type, **{name: value for name, value in values.items() if value is not UNSET}
        )


FIELDS_OF_GPU_KIND = {
    GpuKind.NONE: (),
    GpuKind.WHOLE: ("count",),
    GpuKind.FRACTION: ("fraction", "devices"),
    GpuKind.MEMORY: ("memory_mib", "devices"),
    GpuKind.MIG: ("instances",),
}


class RequestEntry(Entry, frozen=True, kw_only=True):
    """The resources that a task requests. Fractions of a unit are rounded up."""

    cpu_milli: Amount
    memory_bytes: Amount
    pods: Count = 1
    gpu: GpuEntry = GpuEntry(type=GpuKind.NONE)
    dra_gpus: Count = 0

    def to_request(self) -> Request:
        """Return the request."""
        return Request(
            cpu_milli=math.ceil(self.cpu_milli),
            memory_bytes=math.ceil(self.memory_bytes),
            pods=self.pods,
            gpu=self.gpu.to_request(),
            dra_gpus=self.dra_gpus,
        )


class TermEntry(Entry, frozen=True, kw_only=True):
    """A required affinity term."""

    topology_key: Name
    labels: dict[str, str]


class WeightedTermEntry(Entry, frozen=True, kw_only=True):
    """A preferred affinity term."""

    topology_key: Name
    labels: dict[str, str]
    weight: int


class ClaimUseEntry(Entry, frozen=True, kw_only=True):
    """A task's use of a device claim, by the name of the claim or of the task's reference to it."""

    claim: str = ""
    pod_claim_name: str = ""
    from_template: bool = False

    def __post_init__(self) -> None:
        """Check that the claim has a name."""
        if not (self.claim or self.pod_claim_name):
            raise ValueError("claim is missing")


class TaskEntry(Entry, frozen=True, kw_only=True):
    """A task. Fields that are unset by default are short forms that conformance cases use."""

    uid: Name
    status: str
    node: str | None = None
    sub_group: str = "default"
    gpu_groups: tuple[str, ...] = ()
    auto_gpu_groups: Count | UnsetType = UNSET
    """The number of shared GPUs to invent; their names derive from the task."""
    request: RequestEntry
    order_priority: str | int | float | None = None
    pod_labels: dict[str, str] | UnsetType = UNSET
    labels: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity_in: tuple[str, ...] = ()
    affinity: tuple[TermEntry, ...] = ()
    anti_affinity: tuple[TermEntry, ...] = ()
    preferred_affinity: tuple[WeightedTermEntry, ...] = ()
    pod_affinity_topology_key: Name | UnsetType = UNSET
    """Affinity to tasks with this task's own `pod_labels`."""
    pod_anti_affinity_topology_key: Name | UnsetType = UNSET
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[Positive, ...] = ()
    config_maps: tuple[str, ...] = ()
    nominated_node: str | None = None
    legacy_mig: bool = False
    claims: tuple[ClaimUseEntry, ...] = field(name="resource_claims", default=())
    created_minutes_ago: Minutes | UnsetType = UNSET

    @classmethod
    def of(cls, task: TaskSpec, now: datetime) -> TaskEntry:
        """Return the entry for `task`; times are relative to `now`."""
        created = task.created_at
        return cls.like(
            task,
            status=task.status.title,
            request=RequestEntry.like(task.request, gpu=GpuEntry.of(task.request.gpu)),
            affinity=tuple(map(TermEntry.like, task.affinity)),
            anti_affinity=tuple(map(TermEntry.like, task.anti_affinity)),
            created_minutes_ago=UNSET if created is None else minutes_between(created, now),
        )

    def to_task(self, now: datetime, requests: dict[str, Request]) -> TaskSpec:
        """Return the task; equal `requests` become one object, which sessions compare faster."""
        minutes, order, key = self.created_minutes_ago, self.order_priority, repr(self.request)
        if key not in requests:
            requests[key] = self.request.to_request()
        invented = range(given(self.auto_gpu_groups) or 0)
        return copy_as(
            self,
            TaskSpec,
            status=STATUS_BY_TITLE[self.status],
            gpu_groups=(*self.gpu_groups, *(f"auto/{self.uid}/{number}" for number in invented)),
            request=requests[key],
            created_at=None if minutes is UNSET else now - timedelta(seconds=minutes * 60),
            order_priority=None if order is None else str(order),
            labels={**(given(self.pod_labels) or {}), **self.labels},
            affinity=self._terms(self.affinity, self.pod_affinity_topology_key),
            anti_affinity=self._terms(self.anti_affinity, self.pod_anti_affinity_topology_key),
            claims=tuple(
                ClaimUseEntry.like(use, claim=use.claim or use.pod_claim_name)
                for use in self.claims
            ),
        )

    def _terms(
        self, terms: tuple[TermEntry, ...], own_key: str | UnsetType
    ) -> tuple[AffinityTerm, ...]:
        """Return affinity terms; the short form selects tasks by the task's own labels."""
        found = [copy_as(term, AffinityTerm) for term in terms]
        if own_key is not UNSET:
            own = given(self.pod_labels) or {}
            found.append(AffinityTerm(topology_key=own_key, labels=own))
        return tuple(found)


class JobEntry(Entry, frozen=True, kw_only=True):
    """A job."""

    name: Name
    namespace: str = ""
    queue: Name
    priority: int = 50
    preemptible: bool | None = None
    """By default, jobs below a priority are preemptible."""
    created_minutes_ago: Minutes = 0.0
    last_start_seconds_ago: Seconds | None = None
    stale_seconds: Seconds | None = None
    checkpoint_seconds_ago: Seconds | None = None
    disruptions_allowed: Count | None = None
    expected_runtime_seconds: Period | None = None
    delete_job_in_test: bool | UnsetType = UNSET
    """For conformance cases: the job's evicted tasks stay in the cluster as releasing tasks."""
    root: SubGroupEntry = field(name="root_sub_group_set")
    tasks: tuple[TaskEntry, ...] = ()

    @classmethod
    def of(cls, job: JobSpec, now: datetime) -> JobEntry:
        """Return the entry for `job`; times are relative to `now`."""
        expected = job.expected_runtime
        return cls.like(
            job,
            created_minutes_ago=minutes_between(job.created_at, now),
            last_start_seconds_ago=_seconds_between(job.last_start, now),
            stale_seconds=_seconds_between(job.stale_since, now),
            checkpoint_seconds_ago=_seconds_between(job.checkpointed_at, now),
            expected_runtime_seconds=None if expected is None else expected.total_seconds(),
            root=SubGroupEntry.of(job.root),
            tasks=tuple(TaskEntry.of(t, now) for t in sorted(job.tasks, key=lambda t: t.uid)),
        )

    def to_job(self, now: datetime, requests: dict[str, Request]) -> JobSpec:
        """Return the job; equal `requests` of tasks become one object."""
        expected, preemptible = self.expected_runtime_seconds, self.preemptible
        return copy_as(
            self,
            JobSpec,
            preemptible=self.priority < PREEMPTIBLE_BELOW if preemptible is None else preemptible,
            created_at=now - timedelta(seconds=self.created_minutes_ago * 60),
            last_start=_seconds_before(now, self.last_start_seconds_ago),
            stale_since=_seconds_before(now, self.stale_seconds),
            checkpointed_at=_seconds_before(now, self.checkpoint_seconds_ago),
            expected_runtime=None if expected is None else timedelta(seconds=expected),
            root=self.to_root(),
            tasks=tuple(task.to_task(now, requests) for task in self.tasks),
        )

    def to_root(self) -> SubGroupSpec:
        """Return the job's groups; without a pod set, all tasks form one."""
        group = copy_as(self.root, SubGroupSpec)
        if any(group.all_pod_sets()):
            return group
        every = PodSetSpec(name="default", min_available=max(1, len(self.tasks)))
        return SubGroupSpec(name=group.name, topology=group.topology, pod_sets=(every,))


def minutes_between(earlier: datetime, later: datetime) -> float:
    """Return the minutes from one time to another."""
    return (later - earlier).total_seconds() / 60


def _seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    return None if earlier is None else (later - earlier).total_seconds()


def _seconds_before(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)
