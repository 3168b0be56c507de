"""Nodes, queues and devices of a file, to and from the scheduler's values."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from msgspec import UNSET, UnsetType, field

from navarch.scheduler.model.cluster import (
    DEFAULT_GPU_MEMORY_MIB,
    HEALTHY,
    Cluster,
    Name,
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
    Period,
    Positive,
    copy_as,
    given,
)
from navarch.scheduler.snapshot.job_entries import JobEntry, minutes_between


class AllocatableEntry(Entry, frozen=True, kw_only=True):
    """The resources that a node offers."""

    cpu_milli: Amount
    memory_bytes: Amount
    gpus: Count
    pods: Count
    mig: dict[str, Count] = field(default_factory=dict)


class NodeEntry(Entry, frozen=True, kw_only=True):
    """A node."""

    name: Name
    gpu_count: Count | None = field(name="gpu_count_label", default=None)
    allocatable: AllocatableEntry
    dra_gpus: Count = 0
    gpu_memory_mib: Positive = DEFAULT_GPU_MEMORY_MIB
    gpu_memory_synced: bool = True
    mig_strategy: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    health: NodeHealth = HEALTHY

    @classmethod
    def of(cls, node: NodeSpec) -> NodeEntry:
        """Return the entry for `node`."""
        return cls.like(node, allocatable=AllocatableEntry.like(node))

    def to_node(self) -> NodeSpec:
        """Return the node."""
        room = self.allocatable
        return copy_as(
            self,
            NodeSpec,
            cpu_milli=int(room.cpu_milli),
            memory_bytes=int(room.memory_bytes),
            gpus=room.gpus,
            pods=room.pods,
            mig=room.mig,
            gpu_count=room.gpus if self.gpu_count is None else self.gpu_count,
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


class SharesEntry(Entry, frozen=True, kw_only=True):
    """A queue's share of every resource."""

    cpu: ShareEntry
    memory: ShareEntry
    gpu: ShareEntry


class QueueEntry(Entry, frozen=True, kw_only=True):
    """A queue."""

    name: Name
    parent: Name | None = None
    priority: int = 100
    created_minutes_from_now: Minutes = 0.0
    resources: SharesEntry
    preempt_min_runtime_seconds: Period | UnsetType = UNSET
    reclaim_min_runtime_seconds: Period | UnsetType = UNSET

    @classmethod
    def of(cls, queue: QueueSpec, now: datetime) -> QueueEntry:
        """Return the entry for `queue`; times are relative to `now`."""
        return cls.like(
            queue,
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
        return copy_as(
            self,
            QueueSpec,
            created_at=now + timedelta(minutes=self.created_minutes_from_now),
            cpu=self.resources.cpu,
            memory=self.resources.memory,
            gpu=self.resources.gpu,
            preempt_min_runtime=_duration(self.preempt_min_runtime_seconds),
            reclaim_min_runtime=_duration(self.reclaim_min_runtime_seconds),
        )


class SliceEntry(Entry, frozen=True, kw_only=True):
    """Devices that a node, or every node, offers."""

    name: Name
    node: str | None = None
    all_nodes: bool = False
    device_class: Name
    driver: str
    pool: str
    devices: tuple[str, ...]


class DeviceEntry(Entry, frozen=True, kw_only=True):
    """A device that is allocated to a claim."""

    request: str | None = None
    driver: str
    pool: str
    name: str = field(name="device")


class UserEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a claim is reserved for."""

    uid: str


class ClaimEntry(Entry, frozen=True, kw_only=True):
    """A device claim."""

    name: Name
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    device_class: Name
    count: Positive
    allocation: tuple[DeviceEntry, ...] | None = None
    reserved_for: tuple[UserEntry, ...] = ()

    @classmethod
    def of(cls, claim: ResourceClaim) -> ClaimEntry:
        """Return the entry for `claim`."""
        devices = claim.allocation
        return cls.like(
            claim,
            allocation=None
            if devices is None
            else tuple(DeviceEntry.like(device, request=claim.name) for device in devices),
            reserved_for=tuple(UserEntry(uid=uid) for uid in claim.reserved_for),
        )

    def to_claim(self) -> ResourceClaim:
        """Return the claim."""
        return copy_as(self, ResourceClaim, reserved_for=[user.uid for user in self.reserved_for])


class ClusterEntry(Entry, frozen=True, kw_only=True):
    """A cluster."""

    nodes: tuple[NodeEntry, ...] = ()
    queues: tuple[QueueEntry, ...] = ()
    jobs: tuple[JobEntry, ...] = ()
    topologies: tuple[Topology, ...] = ()
    device_classes: tuple[str, ...] = ()
    resource_slices: tuple[SliceEntry, ...] = ()
    resource_claims: tuple[ClaimEntry, ...] = ()
    min_node_gpu_memory_mib: Positive | UnsetType = UNSET
    config_maps: tuple[str, ...] | UnsetType = UNSET
    usage: dict[str, QueueUsage] | UnsetType = UNSET

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterEntry:
        """Return the entry for `cluster`, with lists in order of name."""
        now, memory, maps = cluster.now, cluster.min_node_gpu_memory_mib, cluster.config_maps
        slices = sorted(cluster.resource_slices, key=lambda s: s.name)
        claims = sorted(cluster.resource_claims, key=lambda c: (c.namespace, c.name))
        return cls.like(
            cluster,
            nodes=tuple(map(NodeEntry.of, sorted(cluster.nodes, key=lambda n: n.name))),
            queues=tuple(
                QueueEntry.of(queue, now) for queue in sorted(cluster.queues, key=lambda q: q.name)
            ),
            jobs=tuple(JobEntry.of(job, now) for job in sorted(cluster.jobs, key=lambda j: j.name)),
            topologies=tuple(sorted(cluster.topologies, key=lambda t: t.name)),
            device_classes=tuple(sorted(cluster.device_classes)),
            resource_slices=tuple(
                SliceEntry.like(piece, all_nodes=piece.node is None) for piece in slices
            ),
            resource_claims=tuple(map(ClaimEntry.of, claims)),
            min_node_gpu_memory_mib=UNSET if memory is None else memory,
            config_maps=UNSET if maps is None else tuple(sorted(maps)),
            usage=cluster.usage or UNSET,
        )

    def to_cluster(self, now: datetime) -> Cluster:
        """Return the cluster; the times in the file are relative to `now`."""
        requests: dict[str, Request] = {}
        return Cluster(
            now=now,
            nodes=tuple(node.to_node() for node in self.nodes),
            queues=tuple(queue.to_queue(now) for queue in self.queues),
            jobs=tuple(job.to_job(now, requests) for job in self.jobs),
            topologies=self.topologies,
            device_classes=self.device_classes,
            resource_slices=tuple(
                copy_as(piece, ResourceSlice, node=None if piece.all_nodes else piece.node)
                for piece in self.resource_slices
            ),
            resource_claims=tuple(claim.to_claim() for claim in self.resource_claims),
            config_maps=given(self.config_maps),
            usage=given(self.usage) or {},
            min_node_gpu_memory_mib=given(self.min_node_gpu_memory_mib),
        )


def _period(duration: timedelta | None) -> float | UnsetType:
    return UNSET if duration is None else duration.total_seconds()


def _duration(seconds: float | UnsetType) -> timedelta | None:
    return None if seconds is UNSET else timedelta(seconds=seconds)
