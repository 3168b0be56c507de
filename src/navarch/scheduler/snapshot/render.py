"""A cluster as a document, in the same form that it is read from."""

from datetime import datetime, timedelta
from typing import Any

from navarch.scheduler.model.cluster import (
    AffinityTerm,
    Cluster,
    JobSpec,
    NodeSpec,
    QueueSpec,
    ResourceClaim,
    ResourceShare,
    SubGroupSpec,
    TaskSpec,
    TopologyConstraint,
)
from navarch.scheduler.model.request import GpuKind, GpuRequest, Request

Document = dict[str, Any]


def render_cluster(cluster: Cluster) -> Document:
    """Return the cluster as plain values, ordered by name, so that equal clusters look equal."""
    document: Document = {
        "nodes": [_node(node) for node in sorted(cluster.nodes, key=lambda n: n.name)],
        "queues": [
            _queue(queue, cluster.now) for queue in sorted(cluster.queues, key=lambda q: q.name)
        ],
        "jobs": [_job(job, cluster.now) for job in sorted(cluster.jobs, key=lambda j: j.name)],
        "topologies": [
            {"name": topology.name, "levels": list(topology.levels)}
            for topology in sorted(cluster.topologies, key=lambda t: t.name)
        ],
        "device_classes": sorted(cluster.device_classes),
        "resource_slices": [
            {
                "name": piece.name,
                "node": piece.node,
                "all_nodes": piece.node is None,
                "device_class": piece.device_class,
                "driver": piece.driver,
                "pool": piece.pool,
                "devices": list(piece.devices),
            }
            for piece in sorted(cluster.resource_slices, key=lambda s: s.name)
        ],
        "resource_claims": [
            _claim(claim)
            for claim in sorted(cluster.resource_claims, key=lambda c: (c.namespace, c.name))
        ],
    }
    if cluster.min_node_gpu_memory_mib is not None:
        document["min_node_gpu_memory_mib"] = cluster.min_node_gpu_memory_mib
    if cluster.config_maps is not None:
        document["config_maps"] = sorted(cluster.config_maps)
    if cluster.usage:
        document["usage"] = {
            name: {"cpu": use.cpu, "memory": use.memory, "gpu": use.gpu}
            for name, use in sorted(cluster.usage.items())
        }
    return document


def _node(node: NodeSpec) -> Document:
    health = node.health
    return {
        "name": node.name,
        "gpu_count_label": node.gpu_count,
        "allocatable": {
            "cpu_milli": node.cpu_milli,
            "memory_bytes": node.memory_bytes,
            "gpus": node.gpus,
            "pods": node.pods,
            "mig": _sorted(node.mig),
        },
        "dra_gpus": node.dra_gpus,
        "gpu_memory_mib": node.gpu_memory_mib,
        "gpu_memory_synced": node.gpu_memory_synced,
        "mig_strategy": node.mig_strategy,
        "labels": _sorted(node.labels),
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in node.taints],
        "health": {
            "ready": health.ready,
            "cordoned": health.cordoned,
            "draining": health.draining,
            "suspect": health.suspect,
        },
    }


def _queue(queue: QueueSpec, now: datetime) -> Document:
    document: Document = {
        "name": queue.name,
        "parent": queue.parent,
        "priority": queue.priority,
        "created_minutes_from_now": _minutes(queue.created_at - now),
        "resources": {
            "cpu": _share(queue.cpu),
            "memory": _share(queue.memory),
            "gpu": _share(queue.gpu),
        },
    }
    if queue.preempt_min_runtime is not None:
        document["preempt_min_runtime_seconds"] = queue.preempt_min_runtime.total_seconds()
    if queue.reclaim_min_runtime is not None:
        document["reclaim_min_runtime_seconds"] = queue.reclaim_min_runtime.total_seconds()
    return document


def _share(share: ResourceShare) -> Document:
    return {
        "quota": float(share.quota),
        "limit": float(share.limit),
        "over_quota_weight": float(share.over_quota_weight),
    }


def _job(job: JobSpec, now: datetime) -> Document:
    return {
        "name": job.name,
        "namespace": job.namespace,
        "queue": job.queue,
        "priority": job.priority,
        "preemptible": job.preemptible,
        "created_minutes_ago": _minutes(now - job.created_at),
        "last_start_seconds_ago": _seconds_ago(job.last_start, now),
        "stale_seconds": _seconds_ago(job.stale_since, now),
        "checkpoint_seconds_ago": _seconds_ago(job.checkpointed_at, now),
        "disruptions_allowed": job.disruptions_allowed,
        "expected_runtime_seconds": (
            None if job.expected_runtime is None else job.expected_runtime.total_seconds()
        ),
        "root_sub_group_set": _group(job.root),
        "tasks": [_task(task, now) for task in sorted(job.tasks, key=lambda t: t.uid)],
    }


def _group(group: SubGroupSpec) -> Document:
    return {
        "name": group.name,
        "topology_constraint": _constraint(group.topology),
        "groups": [_group(child) for child in group.groups],
        "pod_sets": [
            {
                "name": pod_set.name,
                "min_available": pod_set.min_available,
                "topology_constraint": _constraint(pod_set.topology),
            }
            for pod_set in group.pod_sets
        ],
    }


def _constraint(constraint: TopologyConstraint | None) -> Document | None:
    if constraint is None:
        return None
    return {
        "topology": constraint.topology,
        "required_level": constraint.required_level,
        "preferred_level": constraint.preferred_level,
    }


def _task(task: TaskSpec, now: datetime) -> Document:
    created = task.created_at
    document: Document = {
        "uid": task.uid,
        "status": task.status.title,
        "node": task.node,
        "sub_group": task.sub_group,
        "gpu_groups": list(task.gpu_groups),
        "request": _request(task.request),
        "order_priority": task.order_priority,
        "labels": _sorted(task.labels),
        "node_selector": _sorted(task.node_selector),
        "node_affinity_in": list(task.node_affinity_in),
        "affinity": [_term(term) for term in task.affinity],
        "anti_affinity": [_term(term) for term in task.anti_affinity],
        "preferred_affinity": [{**_term(t), "weight": t.weight} for t in task.preferred_affinity],
        "tolerations": [
            {"key": t.key, "value": t.value, "effect": t.effect} for t in task.tolerations
        ],
        "host_ports": list(task.host_ports),
        "config_maps": list(task.config_maps),
        "nominated_node": task.nominated_node,
        "legacy_mig": task.legacy_mig,
        "resource_claims": [
            {
                "claim": use.claim,
                "pod_claim_name": use.pod_claim_name,
                "from_template": use.from_template,
            }
            for use in task.claims
        ],
    }
    if created is not None:
        document["created_minutes_ago"] = _minutes(now - created)
    return document


def _term(term: AffinityTerm) -> Document:
    return {"topology_key": term.topology_key, "labels": _sorted(term.labels)}


def _request(request: Request) -> Document:
    return {
        "cpu_milli": request.cpu_milli,
        "memory_bytes": request.memory_bytes,
        "pods": request.pods,
        "gpu": _gpu(request.gpu),
        "dra_gpus": request.dra_gpus,
    }


def _gpu(gpu: GpuRequest) -> Document:
    document: Document = {"type": gpu.kind.value}
    match gpu.kind:
        case GpuKind.WHOLE:
            document["count"] = gpu.count
        case GpuKind.FRACTION:
            document |= {"fraction": gpu.fraction, "devices": gpu.devices}
        case GpuKind.MEMORY:
            document |= {"memory_mib": gpu.memory_mib, "devices": gpu.devices}
        case GpuKind.MIG:
            document["instances"] = _sorted(gpu.mig)
        case GpuKind.NONE:
            pass
    return document


def _claim(claim: ResourceClaim) -> Document:
    allocation = claim.allocation
    return {
        "name": claim.name,
        "namespace": claim.namespace,
        "labels": _sorted(claim.labels),
        "device_class": claim.device_class,
        "count": claim.count,
        "allocation": None
        if allocation is None
        else [
            {"request": claim.name, "driver": d.driver, "pool": d.pool, "device": d.name}
            for d in allocation
        ],
        "reserved_for": [{"uid": uid} for uid in claim.reserved_for],
    }


def _sorted(mapping: Any) -> Document:  # noqa: ANN401
    return dict(sorted(mapping.items()))


def _minutes(duration: timedelta) -> float:
    return duration.total_seconds() / 60


def _seconds_ago(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else (now - moment).total_seconds()
