"""Nodes, queues and devices of a file, to and from the scheduler's values."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from navarch.scheduler.model.cluster import (
    DEFAULT_GPU_MEMORY_MIB,
    Cluster,
    Device,
    NodeHealth,
    NodeSpec,
    QueueSpec,
    QueueUsage,
    ResourceClaim,
    ResourceShare,
    ResourceSlice,
    Taint,
    Topology,
)
from navarch.scheduler.model.request import Request
from navarch.scheduler.snapshot.document import (
    Amount,
    Count,
    Entry,
    Minutes,
    Name,
    Period,
    Positive,
    given,
)
from navarch.scheduler.snapshot.job_entries import JobEntry, minutes_between

Part = Annotated[float, Meta(ge=0, le=1)]


class AllocatableEntry(Entry, frozen=True, kw_only=True):
    """The resources that a node offers."""

    cpu_milli: Amount
    memory_bytes: Amount
    gpus: Count
    pods: Count
    mig: dict[str, Count] | None = None


class TaintEntry(Entry, frozen=True, kw_only=True):
    """A taint."""

    key: Name
    value: str | None = None
    effect: Name | None = None

    @classmethod
    def of(cls, taint: Taint) -> TaintEntry:
        """Return the entry for `taint`."""
        return cls(key=taint.key, value=taint.value, effect=taint.effect)

    def to_taint(self) -> Taint:
        """Return the taint."""
        return Taint(key=self.key, value=self.value or "", effect=self.effect or "NoSchedule")


class HealthEntry(Entry, frozen=True, kw_only=True):
    """The health of a node."""

    ready: bool = True
    cordoned: bool = False
    draining: bool = False
    suspect: bool = False

    @classmethod
    def of(cls, health: NodeHealth) -> HealthEntry:
        """Return the entry for `health`."""
        return cls(
            ready=health.ready,
            cordoned=health.cordoned,
            draining=health.draining,
            suspect=health.suspect,
        )


class NodeEntry(Entry, frozen=True, kw_only=True):
    """A node."""

    name: Name
    gpu_count_label: Count | None = None
    allocatable: AllocatableEntry
    dra_gpus: Count | None = None
    gpu_memory_mib: Positive | None = None
    gpu_memory_synced: bool | None = None
    mig_strategy: str | None = None
    labels: dict[str, str] | None = None
    taints: tuple[TaintEntry, ...] | None = None
    health: HealthEntry | None = None

    @classmethod
    def of(cls, node: NodeSpec) -> NodeEntry:
        """Return the entry for `node`."""
        return cls(
            name=node.name,
            gpu_count_label=node.gpu_count,
            allocatable=AllocatableEntry(
                cpu_milli=node.cpu_milli,
                memory_bytes=node.memory_bytes,
                gpus=node.gpus,
                pods=node.pods,
                mig=dict(sorted(node.mig.items())),
            ),
            dra_gpus=node.dra_gpus,
            gpu_memory_mib=node.gpu_memory_mib,
            gpu_memory_synced=node.gpu_memory_synced,
            mig_strategy=node.mig_strategy,
            labels=dict(sorted(node.labels.items())),
            taints=tuple(map(TaintEntry.of, node.taints)),
            health=HealthEntry.of(node.health),
        )

    def to_node(self) -> NodeSpec:
        """Return the node."""
        room, count, memory = self.allocatable, self.gpu_count_label, self.gpu_memory_mib
        return NodeSpec(
            name=self.name,
            cpu_milli=int(room.cpu_milli),
            memory_bytes=int(room.memory_bytes),
            gpus=room.gpus,
            pods=room.pods,
            mig=room.mig or {},
            gpu_count=room.gpus if count is None else count,
            dra_gpus=self.dra_gpus or 0,
            gpu_memory_mib=DEFAULT_GPU_MEMORY_MIB if memory is None else memory,
            gpu_memory_synced=self.gpu_memory_synced is not False,
            mig_strategy=self.mig_strategy,
            labels=self.labels or {},
            taints=tuple(taint.to_taint() for taint in self.taints or ()),
            health=NodeHealth(**msgspec.structs.asdict(self.health or HealthEntry())),
        )


class ShareEntry(Entry, frozen=True, kw_only=True):
    """A queue's share of one resource; -1 means unlimited."""

    quota: float
    limit: float
    over_quota_weight: float

    @classmethod
    def of(cls, share: ResourceShare) -> ShareEntry:
        """Return the entry for `share`."""
        return cls(
            quota=float(share.quota),
            limit=float(share.limit),
            over_quota_weight=float(share.over_quota_weight),
        )

    def to_share(self) -> ResourceShare:
        """Return the share."""
        return ResourceShare(
            quota=self.quota, limit=self.limit, over_quota_weight=self.over_quota_weight
        )


class SharesEntry(Entry, frozen=True, kw_only=True):
    """A queue's share of every resource."""

    cpu: ShareEntry
    memory: ShareEntry
    gpu: ShareEntry


class QueueEntry(Entry, frozen=True, kw_only=True):
    """A queue."""

    name: Name
    parent: Name | None = None
    priority: int | None = None
    created_minutes_from_now: Minutes | None = None
    resources: SharesEntry
    preempt_min_runtime_seconds: Period | UnsetType | None = UNSET
    reclaim_min_runtime_seconds: Period | UnsetType | None = UNSET

    @classmethod
    def of(cls, queue: QueueSpec, now: datetime) -> QueueEntry:
        """Return the entry for `queue`; times are relative to `now`."""
        return cls(
            name=queue.name,
            parent=queue.parent,
            priority=queue.priority,
            created_minutes_from_now=minutes_between(now, queue.created_at),
            resources=SharesEntry(
                cpu=ShareEntry.of(queue.cpu),
                memory=ShareEntry.of(queue.memory),
                gpu=ShareEntry.of(queue.gpu),
            ),
            preempt_min_runtime_seconds=_period(queue.preempt_min_runtime),
            reclaim_min_runtime_seconds=_period(queue.reclaim_min_runtime),
        )

    def to_queue(self, now: datetime) -> QueueSpec:
        """Return the queue."""
        return QueueSpec(
            name=self.name,
            parent=self.parent,
            priority=100 if self.priority is None else self.priority,
            created_at=now + timedelta(minutes=self.created_minutes_from_now or 0),
            cpu=self.resources.cpu.to_share(),
            memory=self.resources.memory.to_share(),
            gpu=self.resources.gpu.to_share(),
            preempt_min_runtime=_duration(given(self.preempt_min_runtime_seconds)),
            reclaim_min_runtime=_duration(given(self.reclaim_min_runtime_seconds)),
        )


class TopologyEntry(Entry, frozen=True, kw_only=True):
    """A topology: node labels from the widest level to the narrowest."""

    name: Name
    levels: Annotated[tuple[str, ...], Meta(min_length=1)]


class SliceEntry(Entry, frozen=True, kw_only=True):
    """Devices that a node, or every node, offers."""

    name: Name
    node: str | None = None
    all_nodes: bool | None = None
    device_class: Name
    driver: str
    pool: str
    devices: tuple[str, ...]

    @classmethod
    def of(cls, piece: ResourceSlice) -> SliceEntry:
        """Return the entry for `piece`."""
        return cls(
            name=piece.name,
            node=piece.node,
            all_nodes=piece.node is None,
            device_class=piece.device_class,
            driver=piece.driver,
            pool=piece.pool,
            devices=piece.devices,
        )

    def to_slice(self) -> ResourceSlice:
        """Return the slice."""
        return ResourceSlice(
            name=self.name,
            node=None if self.all_nodes else self.node,
            device_class=self.device_class,
            driver=self.driver,
            pool=self.pool,
            devices=self.devices,
        )


class DeviceEntry(Entry, frozen=True, kw_only=True):
    """A device that is allocated to a claim."""

    request: str | None = None
    driver: str
    pool: str
    device: str


class UserEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a claim is reserved for."""

    uid: str


class ClaimEntry(Entry, frozen=True, kw_only=True):
    """A device claim."""

    name: Name
    namespace: str | None = None
    labels: dict[str, str] | None = None
    device_class: Name
    count: Positive
    allocation: tuple[DeviceEntry, ...] | None = None
    reserved_for: tuple[UserEntry, ...] | None = None

    @classmethod
    def of(cls, claim: ResourceClaim) -> ClaimEntry:
        """Return the entry for `claim`."""
        devices = claim.allocation
        return cls(
            name=claim.name,
            namespace=claim.namespace,
            labels=dict(sorted(claim.labels.items())),
            device_class=claim.device_class,
            count=claim.count,
            allocation=None
            if devices is None
            else tuple(
                DeviceEntry(request=claim.name, driver=d.driver, pool=d.pool, device=d.name)
                for d in devices
            ),
            reserved_for=tuple(UserEntry(uid=uid) for uid in claim.reserved_for),
        )

    def to_claim(self) -> ResourceClaim:
        """Return the claim."""
        devices = self.allocation
        return ResourceClaim(
            name=self.name,
            namespace=self.namespace or "",
            labels=self.labels or {},
            device_class=self.device_class,
            count=self.count,
            allocation=None
            if devices is None
            else tuple(Device(driver=d.driver, pool=d.pool, name=d.device) for d in devices),
            reserved_for=tuple(user.uid for user in self.reserved_for or ()),
        )


class UsageEntry(Entry, frozen=True, kw_only=True):
    """The recent usage of a queue, as parts of the cluster."""

    cpu: Part = 0.0
    memory: Part = 0.0
    gpu: Part = 0.0


class ClusterEntry(Entry, frozen=True, kw_only=True):
    """A cluster."""

    nodes: tuple[NodeEntry, ...] | None = None
    queues: tuple[QueueEntry, ...] | None = None
    jobs: tuple[JobEntry, ...] | None = None
    topologies: tuple[TopologyEntry, ...] | None = None
    device_classes: tuple[str, ...] | None = None
    resource_slices: tuple[SliceEntry, ...] | None = None
    resource_claims: tuple[ClaimEntry, ...] | None = None
    min_node_gpu_memory_mib: Positive | UnsetType | None = UNSET
    config_maps: tuple[str, ...] | UnsetType | None = UNSET
    usage: dict[str, UsageEntry] | UnsetType | None = UNSET

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterEntry:
        """Return the entry for `cluster`, with lists in order of name."""
        now, memory, maps = cluster.now, cluster.min_node_gpu_memory_mib, cluster.config_maps
        claims = sorted(cluster.resource_claims, key=lambda c: (c.namespace, c.name))
        usage = {
            name: UsageEntry(cpu=use.cpu, memory=use.memory, gpu=use.gpu)
            for name, use in sorted(cluster.usage.items())
        }
        return cls(
            nodes=tuple(map(NodeEntry.of, sorted(cluster.nodes, key=lambda n: n.name))),
            queues=tuple(
                QueueEntry.of(queue, now) for queue in sorted(cluster.queues, key=lambda q: q.name)
            ),
            jobs=tuple(JobEntry.of(job, now) for job in sorted(cluster.jobs, key=lambda j: j.name)),
            topologies=tuple(
                TopologyEntry(name=topology.name, levels=topology.levels)
                for topology in sorted(cluster.topologies, key=lambda t: t.name)
            ),
            device_classes=tuple(sorted(cluster.device_classes)),
            resource_slices=tuple(
                map(SliceEntry.of, sorted(cluster.resource_slices, key=lambda s: s.name))
            ),
            resource_claims=tuple(map(ClaimEntry.of, claims)),
            min_node_gpu_memory_mib=UNSET if memory is None else memory,
            config_maps=UNSET if maps is None else tuple(sorted(maps)),
            usage=usage or UNSET,
        )

    def to_cluster(self, now: datetime) -> Cluster:
        """Return the cluster; the times in the file are relative to `now`."""
        requests: dict[str, Request] = {}
        return Cluster(
            now=now,
            nodes=tuple(node.to_node() for node in self.nodes or ()),
            queues=tuple(queue.to_queue(now) for queue in self.queues or ()),
            jobs=tuple(job.to_job(now, requests) for job in self.jobs or ()),
            topologies=tuple(
                Topology(name=topology.name, levels=topology.levels)
                for topology in self.topologies or ()
            ),
            device_classes=self.device_classes or (),
            resource_slices=tuple(piece.to_slice() for piece in self.resource_slices or ()),
            resource_claims=tuple(claim.to_claim() for claim in self.resource_claims or ()),
            config_maps=given(self.config_maps),
            usage={
                name: QueueUsage(cpu=use.cpu, memory=use.memory, gpu=use.gpu)
                for name, use in (given(self.usage) or {}).items()
            },
            min_node_gpu_memory_mib=given(self.min_node_gpu_memory_mib),
        )


def _period(duration: timedelta | None) -> float | UnsetType:
    return UNSET if duration is None else duration.total_seconds()


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
