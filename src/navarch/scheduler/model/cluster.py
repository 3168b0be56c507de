"""The cluster as it was found: frozen values, the only input of a scheduling cycle."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import TaskStatus

DEFAULT_GPU_MEMORY_MIB = 100
"""The default for a node without a figure; such a node takes no requests for GPU memory."""

PREEMPTIBLE_BELOW = 100
"""A job without a setting may be interrupted if its priority is below this."""

QUEUE_LABEL = "kai.scheduler/queue"
NODE_TYPE_LABEL = "kai.scheduler/type"


PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
"""The effect of a taint that rejects no task: a node with it is only chosen after the others."""


Name = Annotated[str, Meta(min_length=1)]
Part = Annotated[float, Meta(ge=0, le=1)]


class PlainValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the values that snapshot files hold as they are; the others have an entry there."""


class Taint(PlainValue, frozen=True, kw_only=True):
    """Keeps tasks off a node unless they tolerate it."""

    key: Name
    value: str = ""
    effect: Name = "NoSchedule"


class Toleration(PlainValue, frozen=True, kw_only=True):
    """Lets a task onto nodes with a taint. An empty key tolerates everything."""

    key: str = ""
    value: str | None = None
    effect: str | None = None

    def covers(self, taint: Taint) -> bool:
        """Return whether the task tolerates `taint`."""
        if self.key and self.key != taint.key:
            return False
        if self.effect is not None and self.effect != taint.effect:
            return False
        return self.value is None or self.value == taint.value


class NodeHealth(PlainValue, frozen=True, kw_only=True):
    """What the fleet thinks of a node. Everything but the default keeps new work away."""

    ready: bool = True
    cordoned: bool = False
    draining: bool = False
    suspect: bool = False


HEALTHY: Final = NodeHealth()
"""The health of most nodes, as one object, so that an identity check finds the others."""

_NOTHING: Final[Mapping[str, str]] = {}


def _nothing() -> Mapping[str, str]:
    """Return an empty mapping that all tasks without labels share."""
    return _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One machine: its resources, labels and health."""

    name: str
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    pods: int = 110
    mig: Mapping[str, int] = field(default_factory=dict)
    gpu_count: int = 0
    dra_gpus: int = 0
    gpu_memory_mib: int = DEFAULT_GPU_MEMORY_MIB
    gpu_memory_synced: bool = True
    mig_strategy: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    health: NodeHealth = HEALTHY


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceShare:
    """What a queue is promised of one resource, may have at most, and how surplus is weighted."""

    quota: float = 0
    limit: float = UNLIMITED
    over_quota_weight: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """One queue. Jobs are in leaves; inner queues bound and weigh their children."""

    name: str
    created_at: datetime
    parent: str | None = None
    priority: int = 100
    cpu: ResourceShare = field(default_factory=ResourceShare)
    memory: ResourceShare = field(default_factory=ResourceShare)
    gpu: ResourceShare = field(default_factory=ResourceShare)
    preempt_min_runtime: timedelta | None = None
    reclaim_min_runtime: timedelta | None = None


class TopologyConstraint(PlainValue, frozen=True, kw_only=True):
    """A request to place tasks near each other: within one domain of the required level."""

    topology: str
    required_level: str = ""
    preferred_level: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetSpec:
    """Equal members of a job: at least `min_available` of them run, or none."""

    name: str
    min_available: int = 1
    topology: TopologyConstraint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroupSpec:
    """A group of pod sets or further groups."""

    name: str = ""
    topology: TopologyConstraint | None = None
    groups: tuple["SubGroupSpec", ...] = ()
    pod_sets: tuple[PodSetSpec, ...] = ()

    def all_pod_sets(self) -> Iterator[PodSetSpec]:
        """Yield the pod sets of this group and of all groups in it."""
        yield from self.pod_sets
        for group in self.groups:
            yield from group.all_pod_sets()


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityTerm:
    """Wants, or shuns, nodes in the same `topology_key` domain as tasks with `labels`."""

    topology_key: str
    labels: Mapping[str, str]
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUse:
    """A task's use of a device claim; `from_template` means the claim is its own."""

    claim: str
    pod_claim_name: str = ""
    from_template: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task as it was found."""

    uid: str
    status: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    sub_group: str = "default"
    gpu_groups: tuple[str, ...] = ()
    request: Request = field(default_factory=Request)
    created_at: datetime | None = None
    order_priority: str | None = None
    labels: Mapping[str, str] = field(default_factory=_nothing)
    node_selector: Mapping[str, str] = field(default_factory=_nothing)
    node_affinity_in: tuple[str, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[int, ...] = ()
    config_maps: tuple[str, ...] = ()
    nominated_node: str | None = None
    legacy_mig: bool = False
    claims: tuple[ClaimUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A gang: tasks that start together, and the queue that pays for them."""

    name: str
    queue: str
    created_at: datetime
    namespace: str = ""
    priority: int = 50
    preemptible: bool = True
    last_start: datetime | None = None
    stale_since: datetime | None = None
    checkpointed_at: datetime | None = None
    """When its work was last saved: what it did since is lost if it is stopped."""
    disruptions_allowed: int | None = None
    """How many of its tasks may be stopped for others now; nothing means any number."""
    expected_runtime: timedelta | None = None
    """How long it is expected to run from its start."""
    root: SubGroupSpec = field(default_factory=SubGroupSpec)
    tasks: tuple[TaskSpec, ...] = ()


class Topology(PlainValue, frozen=True, kw_only=True):
    """How the cluster is wired: node labels from the widest level to the narrowest."""

    name: Name
    levels: Annotated[tuple[str, ...], Meta(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """Devices that a node offers to claims of one class."""

    name: str
    device_class: str
    driver: str
    pool: str
    devices: tuple[str, ...]
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Device:
    """One device, by the names its driver gives it."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClaim:
    """A claim on devices, with its devices and users so far."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    device_class: str = ""
    count: int = 1
    allocation: tuple[Device, ...] | None = None
    reserved_for: tuple[str, ...] = ()


class QueueUsage(PlainValue, frozen=True, kw_only=True):
    """Which part of the cluster a queue has used of late, per resource, from 0 to 1."""

    cpu: Part = 0.0
    memory: Part = 0.0
    gpu: Part = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The complete input of a scheduling cycle, at one moment."""

    now: datetime
    nodes: tuple[NodeSpec, ...] = ()
    queues: tuple[QueueSpec, ...] = ()
    jobs: tuple[JobSpec, ...] = ()
    topologies: tuple[Topology, ...] = ()
    device_classes: tuple[str, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    config_maps: tuple[str, ...] | None = None
    usage: Mapping[str, QueueUsage] = field(default_factory=dict)
    min_node_gpu_memory_mib: int | None = None
