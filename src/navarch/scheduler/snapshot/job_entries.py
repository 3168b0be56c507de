"""Jobs and tasks of a file, to and from the scheduler's values."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from navarch.scheduler.model.cluster import (
    PREEMPTIBLE_BELOW,
    AffinityTerm,
    ClaimUse,
    JobSpec,
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
    Name,
    Period,
    Positive,
    Seconds,
    given,
)

Fraction = Annotated[float, Meta(ge=0.01, le=1)]


class ConstraintEntry(Entry, frozen=True, kw_only=True):
    """A topology constraint."""

    topology: str
    required_level: str | None = None
    preferred_level: str | None = None

    @classmethod
    def of(cls, constraint: TopologyConstraint | None) -> ConstraintEntry | None:
        """Return the entry for `constraint`."""
        if constraint is None:
            return None
        return cls(
            topology=constraint.topology,
            required_level=constraint.required_level,
            preferred_level=constraint.preferred_level,
        )

    def to_constraint(self) -> TopologyConstraint:
        """Return the constraint."""
        return TopologyConstraint(
            topology=self.topology,
            required_level=self.required_level or "",
            preferred_level=self.preferred_level or "",
        )


class PodSetEntry(Entry, frozen=True, kw_only=True):
    """A pod set."""

    name: Name
    min_available: Count
    topology_constraint: ConstraintEntry | None = None

    @classmethod
    def of(cls, pod_set: PodSetSpec) -> PodSetEntry:
        """Return the entry for `pod_set`."""
        return cls(
            name=pod_set.name,
            min_available=pod_set.min_available,
            topology_constraint=ConstraintEntry.of(pod_set.topology),
        )

    def to_pod_set(self) -> PodSetSpec:
        """Return the pod set."""
        constraint = self.topology_constraint
        return PodSetSpec(
            name=self.name,
            min_available=self.min_available,
            topology=constraint.to_constraint() if constraint else None,
        )


class SubGroupEntry(Entry, frozen=True, kw_only=True):
    """A group of pod sets and further groups."""

    name: str | None = None
    topology_constraint: ConstraintEntry | None = None
    groups: tuple[SubGroupEntry, ...] | None = None
    pod_sets: tuple[PodSetEntry, ...] | None = None

    @classmethod
    def of(cls, group: SubGroupSpec) -> SubGroupEntry:
        """Return the entry for `group`."""
        return cls(
            name=group.name,
            topology_constraint=ConstraintEntry.of(group.topology),
            groups=tuple(map(SubGroupEntry.of, group.groups)),
            pod_sets=tuple(map(PodSetEntry.of, group.pod_sets)),
        )

    def to_group(self) -> SubGroupSpec:
        """Return the group."""
        constraint = self.topology_constraint
        return SubGroupSpec(
            name=self.name or "",
            topology=constraint.to_constraint() if constraint else None,
            groups=tuple(group.to_group() for group in self.groups or ()),
            pod_sets=tuple(pod_set.to_pod_set() for pod_set in self.pod_sets or ()),
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
        needed = {
            GpuKind.WHOLE: "count",
            GpuKind.FRACTION: "fraction",
            GpuKind.MEMORY: "memory_mib",
            GpuKind.MIG: "instances",
        }.get(self.type)
        if needed is not None and getattr(self, needed) is UNSET:
            raise ValueError(f"{needed} is missing")

    @classmethod
    def of(cls, gpu: GpuRequest) -> GpuEntry:
        """Return the entry for `gpu`."""
        match gpu.kind:
            case GpuKind.WHOLE:
                return cls(type=gpu.kind, count=gpu.count)
            case GpuKind.FRACTION:
                return cls(type=gpu.kind, fraction=gpu.fraction, devices=gpu.devices)
            case GpuKind.MEMORY:
                return cls(type=gpu.kind, memory_mib=gpu.memory_mib, devices=gpu.devices)
            case GpuKind.MIG:
                return cls(type=gpu.kind, instances=dict(sorted(gpu.mig.items())))
            case GpuKind.NONE:
                return cls(type=gpu.kind)

    def to_request(self) -> GpuRequest:
        """Return the request."""
        devices = given(self.devices) or 1
        match self.type:
            case GpuKind.WHOLE if count := given(self.count):
                return GpuRequest(kind=self.type, count=count)
            case GpuKind.FRACTION if fraction := given(self.fraction):
                return GpuRequest(kind=self.type, fraction=fraction, devices=devices)
            case GpuKind.MEMORY if memory := given(self.memory_mib):
                return GpuRequest(kind=self.type, memory_mib=memory, devices=devices)
            case GpuKind.MIG:
                return GpuRequest(kind=self.type, mig=given(self.instances) or {})
            case _:
                return GpuRequest()


class RequestEntry(Entry, frozen=True, kw_only=True):
    """The resources that a task requests. Fractions of a unit are rounded up."""

    cpu_milli: Amount
    memory_bytes: Amount
    pods: Count | None = None
    gpu: GpuEntry | None = None
    dra_gpus: Count | None = None

    @classmethod
    def of(cls, request: Request) -> RequestEntry:
        """Return the entry for `request`."""
        return cls(
            cpu_milli=request.cpu_milli,
            memory_bytes=request.memory_bytes,
            pods=request.pods,
            gpu=GpuEntry.of(request.gpu),
            dra_gpus=request.dra_gpus,
        )

    def to_request(self) -> Request:
        """Return the request."""
        return Request(
            cpu_milli=math.ceil(self.cpu_milli),
            memory_bytes=math.ceil(self.memory_bytes),
            pods=1 if self.pods is None else self.pods,
            gpu=self.gpu.to_request() if self.gpu else GpuRequest(),
            dra_gpus=self.dra_gpus or 0,
        )


class TermEntry(Entry, frozen=True, kw_only=True):
    """A required affinity term."""

    topology_key: Name
    labels: dict[str, str]

    @classmethod
    def of(cls, term: AffinityTerm) -> TermEntry:
        """Return the entry for `term`."""
        return cls(topology_key=term.topology_key, labels=dict(sorted(term.labels.items())))

    def to_term(self) -> AffinityTerm:
        """Return the term."""
        return AffinityTerm(topology_key=self.topology_key, labels=self.labels)


class WeightedTermEntry(Entry, frozen=True, kw_only=True):
    """A preferred affinity term."""

    topology_key: Name
    labels: dict[str, str]
    weight: int

    @classmethod
    def of(cls, term: AffinityTerm) -> WeightedTermEntry:
        """Return the entry for `term`."""
        labels = dict(sorted(term.labels.items()))
        return cls(topology_key=term.topology_key, labels=labels, weight=term.weight)

    def to_term(self) -> AffinityTerm:
        """Return the term."""
        return AffinityTerm(topology_key=self.topology_key, labels=self.labels, weight=self.weight)


class TolerationEntry(Entry, frozen=True, kw_only=True):
    """A toleration."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None

    @classmethod
    def of(cls, toleration: Toleration) -> TolerationEntry:
        """Return the entry for `toleration`."""
        return cls(key=toleration.key, value=toleration.value, effect=toleration.effect)

    def to_toleration(self) -> Toleration:
        """Return the toleration."""
        return Toleration(key=self.key or "", value=self.value, effect=self.effect)


class ClaimUseEntry(Entry, frozen=True, kw_only=True):
    """A task's use of a device claim, by the name of the claim or of the task's reference to it."""

    claim: Name | None = None
    pod_claim_name: str | None = None
    from_template: bool | None = None

    def __post_init__(self) -> None:
        """Check that the claim has a name."""
        if not (self.claim or self.pod_claim_name):
            raise ValueError("claim is missing")

    @classmethod
    def of(cls, use: ClaimUse) -> ClaimUseEntry:
        """Return the entry for `use`."""
        return cls(
            claim=use.claim, pod_claim_name=use.pod_claim_name, from_template=use.from_template
        )

    def to_use(self) -> ClaimUse:
        """Return the use."""
        return ClaimUse(
            claim=self.claim or self.pod_claim_name or "",
            pod_claim_name=self.pod_claim_name or "",
            from_template=bool(self.from_template),
        )


class TaskEntry(Entry, frozen=True, kw_only=True):
    """A task. Fields that are unset by default are short forms that conformance cases use."""

    uid: Name
    status: str
    node: str | None = None
    sub_group: str | None = None
    gpu_groups: tuple[str, ...] | None = None
    auto_gpu_groups: Count | UnsetType | None = UNSET
    """The number of shared GPUs to invent; their names derive from the task."""
    request: RequestEntry
    order_priority: str | int | float | None = None
    pod_labels: dict[str, str] | UnsetType | None = UNSET
    labels: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    node_affinity_in: tuple[str, ...] | None = None
    affinity: tuple[TermEntry, ...] | None = None
    anti_affinity: tuple[TermEntry, ...] | None = None
    preferred_affinity: tuple[WeightedTermEntry, ...] | None = None
    pod_affinity_topology_key: Name | UnsetType | None = UNSET
    """Affinity to tasks with this task's own `pod_labels`."""
    pod_anti_affinity_topology_key: Name | UnsetType | None = UNSET
    tolerations: tuple[TolerationEntry, ...] | None = None
    host_ports: tuple[Positive, ...] | None = None
    config_maps: tuple[str, ...] | None = None
    nominated_node: str | None = None
    legacy_mig: bool | None = None
    resource_claims: tuple[ClaimUseEntry, ...] | None = None
    created_minutes_ago: Minutes | UnsetType | None = UNSET

    @classmethod
    def of(cls, task: TaskSpec, now: datetime) -> TaskEntry:
        """Return the entry for `task`; times are relative to `now`."""
        created = task.created_at
        return cls(
            uid=task.uid,
            status=task.status.title,
            node=task.node,
            sub_group=task.sub_group,
            gpu_groups=task.gpu_groups,
            request=RequestEntry.of(task.request),
            order_priority=task.order_priority,
            labels=dict(sorted(task.labels.items())),
            node_selector=dict(sorted(task.node_selector.items())),
            node_affinity_in=task.node_affinity_in,
            affinity=tuple(map(TermEntry.of, task.affinity)),
            anti_affinity=tuple(map(TermEntry.of, task.anti_affinity)),
            preferred_affinity=tuple(map(WeightedTermEntry.of, task.preferred_affinity)),
            tolerations=tuple(map(TolerationEntry.of, task.tolerations)),
            host_ports=task.host_ports,
            config_maps=task.config_maps,
            nominated_node=task.nominated_node,
            legacy_mig=task.legacy_mig,
            resource_claims=tuple(map(ClaimUseEntry.of, task.claims)),
            created_minutes_ago=UNSET if created is None else minutes_between(created, now),
        )

    def to_task(self, now: datetime, requests: dict[str, Request]) -> TaskSpec:
        """Return the task; equal `requests` become one object, which sessions compare faster."""
        order = self.order_priority
        return TaskSpec(
            uid=self.uid,
            status=STATUS_BY_TITLE[self.status],
            node=self.node,
            sub_group=self.pod_set,
            gpu_groups=self._gpu_groups(),
            request=self._request(requests),
            created_at=minutes_before(now, given(self.created_minutes_ago)),
            order_priority=None if order is None else str(order),
            labels={**(given(self.pod_labels) or {}), **(self.labels or {})},
            node_selector=self.node_selector or {},
            node_affinity_in=self.node_affinity_in or (),
            affinity=self._terms(self.affinity, given(self.pod_affinity_topology_key)),
            anti_affinity=self._terms(
                self.anti_affinity, given(self.pod_anti_affinity_topology_key)
            ),
            preferred_affinity=tuple(term.to_term() for term in self.preferred_affinity or ()),
            tolerations=tuple(one.to_toleration() for one in self.tolerations or ()),
            host_ports=self.host_ports or (),
            config_maps=self.config_maps or (),
            nominated_node=self.nominated_node,
            legacy_mig=bool(self.legacy_mig),
            claims=tuple(use.to_use() for use in self.resource_claims or ()),
        )

    @property
    def pod_set(self) -> str:
        """The name of the task's pod set."""
        return "default" if self.sub_group is None else self.sub_group

    def _request(self, known: dict[str, Request]) -> Request:
        key = repr(self.request)
        if key not in known:
            known[key] = self.request.to_request()
        return known[key]

    def _gpu_groups(self) -> tuple[str, ...]:
        invented = [
            f"auto/{self.uid}/{number}" for number in range(given(self.auto_gpu_groups) or 0)
        ]
        return (*(self.gpu_groups or ()), *invented)

    def _terms(
        self, terms: tuple[TermEntry, ...] | None, own: str | None
    ) -> tuple[AffinityTerm, ...]:
        """Return affinity terms; the short form selects tasks by the task's own labels."""
        found = [term.to_term() for term in terms or ()]
        if own:
            found.append(AffinityTerm(topology_key=own, labels=given(self.pod_labels) or {}))
        return tuple(found)


class JobEntry(Entry, frozen=True, kw_only=True):
    """A job."""

    name: Name
    namespace: str | None = None
    queue: Name
    priority: int | None = None
    preemptible: bool | None = None
    created_minutes_ago: Minutes | None = None
    last_start_seconds_ago: Seconds | None = None
    stale_seconds: Seconds | None = None
    checkpoint_seconds_ago: Seconds | None = None
    disruptions_allowed: Count | None = None
    expected_runtime_seconds: Period | None = None
    delete_job_in_test: bool | UnsetType | None = UNSET
    """For conformance cases: the job's evicted tasks stay in the cluster as releasing tasks."""
    root_sub_group_set: SubGroupEntry
    tasks: tuple[TaskEntry, ...] | None = None

    @classmethod
    def of(cls, job: JobSpec, now: datetime) -> JobEntry:
        """Return the entry for `job`; times are relative to `now`."""
        expected = job.expected_runtime
        return cls(
            name=job.name,
            namespace=job.namespace,
            queue=job.queue,
            priority=job.priority,
            preemptible=job.preemptible,
            created_minutes_ago=minutes_between(job.created_at, now),
            last_start_seconds_ago=_seconds_between(job.last_start, now),
            stale_seconds=_seconds_between(job.stale_since, now),
            checkpoint_seconds_ago=_seconds_between(job.checkpointed_at, now),
            disruptions_allowed=job.disruptions_allowed,
            expected_runtime_seconds=None if expected is None else expected.total_seconds(),
            root_sub_group_set=SubGroupEntry.of(job.root),
            tasks=tuple(TaskEntry.of(t, now) for t in sorted(job.tasks, key=lambda t: t.uid)),
        )

    def to_job(self, now: datetime, requests: dict[str, Request]) -> JobSpec:
        """Return the job."""
        priority = 50 if self.priority is None else self.priority
        expected = self.expected_runtime_seconds
        return JobSpec(
            name=self.name,
            namespace=self.namespace or "",
            queue=self.queue,
            priority=priority,
            preemptible=(
                priority < PREEMPTIBLE_BELOW if self.preemptible is None else self.preemptible
            ),
            created_at=minutes_before(now, self.created_minutes_ago) or now,
            last_start=_seconds_before(now, self.last_start_seconds_ago),
            stale_since=_seconds_before(now, self.stale_seconds),
            checkpointed_at=_seconds_before(now, self.checkpoint_seconds_ago),
            disruptions_allowed=self.disruptions_allowed,
            expected_runtime=None if expected is None else timedelta(seconds=expected),
            root=self.root,
            tasks=tuple(task.to_task(now, requests) for task in self.tasks or ()),
        )

    @property
    def root(self) -> SubGroupSpec:
        """The job's groups; without a pod set, all tasks form one."""
        group = self.root_sub_group_set.to_group()
        if any(group.all_pod_sets()):
            return group
        every = PodSetSpec(name="default", min_available=max(1, len(self.tasks or ())))
        return SubGroupSpec(name=group.name, topology=group.topology, pod_sets=(every,))


def minutes_between(earlier: datetime, later: datetime) -> float:
    """Return the minutes from one time to another."""
    return (later - earlier).total_seconds() / 60


def minutes_before(now: datetime, minutes: float | None) -> datetime | None:
    """Return the time `minutes` before `now`."""
    return None if minutes is None else now - timedelta(seconds=minutes * 60)


def _seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    return None if earlier is None else (later - earlier).total_seconds()


def _seconds_before(now: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else now - timedelta(seconds=seconds)
