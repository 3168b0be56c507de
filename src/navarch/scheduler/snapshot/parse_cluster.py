"""A cluster from a document: nodes, queues, devices, and what they refer to."""

from collections.abc import Mapping
from datetime import datetime, timedelta

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
from navarch.scheduler.snapshot.document import Field
from navarch.scheduler.snapshot.parse_jobs import JobReader

CLUSTER_FIELDS = frozenset(
    {"nodes", "queues", "jobs", "topologies", "device_classes", "resource_slices"}
    | {"resource_claims", "min_node_gpu_memory_mib", "config_maps", "usage"}
)


def parse_cluster(document: Field, now: datetime, *, keep_lost_jobs: bool = False) -> Cluster:
    """Return the cluster in `document`, which speaks of times relative to `now`.

    Jobs whose queue cannot have jobs are refused, unless `keep_lost_jobs`: a session never
    schedules them.

    Raises:
        InvalidError: Something makes no sense; the message begins with the path of the field.
    """
    document.only(CLUSTER_FIELDS)
    nodes = [parse_node(field) for field in document.listed("nodes")]
    refuse_twins(document, "nodes", [node.name for node in nodes])
    topologies = [_parse_topology(field) for field in document.listed("topologies")]
    refuse_twins(document, "topologies", [topology.name for topology in topologies])
    queues = _parse_queues(document, now)
    known_nodes = {node.name for node in nodes}
    claims = [_parse_claim(field) for field in document.listed("resource_claims")]
    refuse_twins(document, "resource_claims", [f"{c.namespace}/{c.name}" for c in claims])
    jobs = JobReader(
        now=now,
        nodes=known_nodes,
        queues={queue.name for queue in queues},
        inner_queues={queue.parent for queue in queues if queue.parent is not None},
        keep_lost=keep_lost_jobs,
    ).read(document)
    config_maps = document.find("config_maps")
    memory = document.find("min_node_gpu_memory_mib")
    return Cluster(
        now=now,
        nodes=tuple(nodes),
        queues=tuple(queues),
        jobs=tuple(jobs),
        topologies=tuple(topologies),
        device_classes=tuple(field.text() for field in document.listed("device_classes")),
        resource_slices=tuple(
            _parse_slice(field, known_nodes) for field in document.listed("resource_slices")
        ),
        resource_claims=tuple(claims),
        config_maps=None if config_maps is None else config_maps.texts(),
        usage=_parse_usage(document, {queue.name for queue in queues}),
        min_node_gpu_memory_mib=None if memory is None else memory.whole(at_least=1),
    )


def refuse_twins(document: Field, key: str, names: list[str]) -> None:
    """Refuse a list in which two entries have the same name."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            Field(name, f"{document.path}.{key}[{index}].name").refuse(f"{name!r} is there twice")
        seen.add(name)


def parse_node(field: Field) -> NodeSpec:
    """Return one node."""
    field.only(
        {"name", "gpu_count_label", "allocatable", "dra_gpus", "gpu_memory_mib"}
        | {"gpu_memory_synced", "mig_strategy", "labels", "taints", "health"}
    )
    room = field.get("allocatable").only({"cpu_milli", "memory_bytes", "gpus", "pods", "mig"})
    mig = room.find("mig")
    strategy, labels = field.find("mig_strategy"), field.find("labels")
    memory = field.find("gpu_memory_mib")
    synced, dra = field.find("gpu_memory_synced"), field.find("dra_gpus")
    count = field.find("gpu_count_label")
    gpus = room.get("gpus").whole(at_least=0)
    return NodeSpec(
        name=field.get("name").name(),
        cpu_milli=int(room.get("cpu_milli").number(at_least=0)),
        memory_bytes=int(room.get("memory_bytes").number(at_least=0)),
        gpus=gpus,
        pods=room.get("pods").whole(at_least=0),
        mig=mig.counts() if mig else {},
        gpu_count=count.whole(at_least=0) if count else gpus,
        dra_gpus=dra.whole(at_least=0) if dra else 0,
        gpu_memory_mib=memory.whole(at_least=1) if memory else DEFAULT_GPU_MEMORY_MIB,
        gpu_memory_synced=synced.flag() if synced else True,
        mig_strategy=strategy.text() if strategy else None,
        labels=labels.labels() if labels else {},
        taints=tuple(_parse_taint(taint) for taint in field.listed("taints")),
        health=_parse_health(field.find("health")),
    )


def _parse_taint(field: Field) -> Taint:
    field.only({"key", "value", "effect"})
    value, effect = field.find("value"), field.find("effect")
    return Taint(
        key=field.get("key").name(),
        value=value.text() if value else "",
        effect=effect.name() if effect else "NoSchedule",
    )


def _parse_health(field: Field | None) -> NodeHealth:
    if field is None:
        return NodeHealth()
    field.only({"ready", "cordoned", "draining", "suspect"})
    return NodeHealth(**{name: flag.flag() for name, flag in field.members()})


def _parse_queues(document: Field, now: datetime) -> list[QueueSpec]:
    fields = list(document.listed("queues"))
    queues = [_parse_queue(field, now) for field in fields]
    refuse_twins(document, "queues", [queue.name for queue in queues])
    parents = {queue.name: queue.parent for queue in queues}
    for field, queue in zip(fields, queues, strict=True):
        if queue.parent is not None and queue.parent not in parents:
            field.get("parent").refuse(f"no queue is called {queue.parent!r}")
        _refuse_cycle(field, queue.name, parents)
    return queues


def _refuse_cycle(field: Field, name: str, parents: Mapping[str, str | None]) -> None:
    """Refuse a queue that is its own ancestor; one merely below a circle is not to blame."""
    path = [name]
    parent = parents[name]
    while parent is not None and parent not in path:
        path.append(parent)
        parent = parents.get(parent)
    if parent == name:
        field.get("parent").refuse(f"queues form a cycle: {' > '.join([*path, name])}")


def _parse_queue(field: Field, now: datetime) -> QueueSpec:
    field.only(
        {"name", "parent", "priority", "created_minutes_from_now", "resources"}
        | {"preempt_min_runtime_seconds", "reclaim_min_runtime_seconds"}
    )
    parent, priority = field.find("parent"), field.find("priority")
    created = field.find("created_minutes_from_now")
    resources = field.get("resources").only({"cpu", "memory", "gpu"})
    return QueueSpec(
        name=field.get("name").name(),
        parent=parent.name() if parent else None,
        priority=priority.whole() if priority else 100,
        created_at=now + timedelta(minutes=created.number() if created else 0),
        cpu=_parse_share(resources.get("cpu")),
        memory=_parse_share(resources.get("memory")),
        gpu=_parse_share(resources.get("gpu")),
        preempt_min_runtime=_parse_seconds(field.find("preempt_min_runtime_seconds")),
        reclaim_min_runtime=_parse_seconds(field.find("reclaim_min_runtime_seconds")),
    )


def _parse_share(field: Field) -> ResourceShare:
    field.only({"quota", "limit", "over_quota_weight"})
    return ResourceShare(
        quota=field.get("quota").bound(),
        limit=field.get("limit").bound(),
        over_quota_weight=field.get("over_quota_weight").bound(),
    )


def _parse_seconds(field: Field | None) -> timedelta | None:
    return None if field is None else timedelta(seconds=field.number(at_least=0))


def _parse_usage(document: Field, queues: set[str]) -> dict[str, QueueUsage]:
    field = document.find("usage")
    if field is None:
        return {}
    usage: dict[str, QueueUsage] = {}
    for name, row in field.members():
        if name not in queues:
            row.refuse(f"no queue is called {name!r}")
        row.only({"cpu", "memory", "gpu"})
        parts = {part: value.number(at_least=0, at_most=1) for part, value in row.members()}
        usage[name] = QueueUsage(**parts)
    return usage


def _parse_topology(field: Field) -> Topology:
    field.only({"name", "levels"})
    levels = field.get("levels").texts()
    if not levels:
        field.get("levels").refuse("must not be empty")
    return Topology(name=field.get("name").name(), levels=levels)


def _parse_slice(field: Field, nodes: set[str]) -> ResourceSlice:
    field.only({"name", "node", "all_nodes", "device_class", "driver", "pool", "devices"})
    everywhere = field.find("all_nodes")
    node = field.find("node")
    if everywhere is not None and everywhere.flag():
        node = None
    if node is not None and node.text() not in nodes:
        node.refuse(f"no node is called {node.text()!r}")
    return ResourceSlice(
        name=field.get("name").name(),
        node=node.text() if node else None,
        device_class=field.get("device_class").name(),
        driver=field.get("driver").text(),
        pool=field.get("pool").text(),
        devices=field.get("devices").texts(),
    )


def _parse_claim(field: Field) -> ResourceClaim:
    field.only(
        {"name", "namespace", "labels", "device_class", "count", "allocation"} | {"reserved_for"}
    )
    labels, allocation = field.find("labels"), field.find("allocation")
    namespace = field.find("namespace")
    return ResourceClaim(
        name=field.get("name").name(),
        namespace=namespace.text() if namespace else "",
        labels=labels.labels() if labels else {},
        device_class=field.get("device_class").name(),
        count=field.get("count").whole(at_least=1),
        allocation=tuple(_parse_device(d) for d in allocation.items()) if allocation else None,
        reserved_for=tuple(user.get("uid").text() for user in field.listed("reserved_for")),
    )


def _parse_device(field: Field) -> Device:
    field.only({"request", "driver", "pool", "device"})
    return Device(
        driver=field.get("driver").text(),
        pool=field.get("pool").text(),
        name=field.get("device").text(),
    )
