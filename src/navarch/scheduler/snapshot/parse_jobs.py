"""Jobs from a document, checked against the nodes and queues they refer to."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

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
from navarch.scheduler.model.status import ALLOCATED_MASK, STATUS_BY_TITLE, TaskStatus
from navarch.scheduler.snapshot.document import Field

JOB_FIELDS: Final = frozenset(
    {"name", "namespace", "queue", "priority", "preemptible", "created_minutes_ago", "tasks"}
    | {"checkpoint_seconds_ago", "disruptions_allowed", "expected_runtime_seconds"}
    | {"last_start_seconds_ago", "stale_seconds", "delete_job_in_test", "root_sub_group_set"}
)
TASK_FIELDS: Final = frozenset(
    {"uid", "status", "node", "sub_group", "gpu_groups", "auto_gpu_groups", "request"}
    | {"order_priority", "node_affinity_in", "pod_labels", "pod_affinity_topology_key"}
    | {"pod_anti_affinity_topology_key", "legacy_mig", "resource_claims"}
    | {"created_minutes_ago", "labels", "node_selector", "tolerations", "host_ports"}
    | {"config_maps", "nominated_node", "affinity", "anti_affinity", "preferred_affinity"}
)
ON_NODE: Final = ALLOCATED_MASK | TaskStatus.RELEASING.value | TaskStatus.PIPELINED.value


@dataclass(frozen=True, kw_only=True)
class JobReader:
    """Reads jobs; knows the names that they may refer to."""

    now: datetime
    nodes: set[str]
    queues: set[str]
    inner_queues: set[str]
    keep_lost: bool
    """Accept jobs whose queue does not exist or has queues in it; they are never scheduled."""
    _uids: set[str] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)
    _requests: dict[str, Request] = field(default_factory=dict)
    """By how they are written: equal ones become one object, so that a session soon sees it."""

    def read(self, document: Field) -> Iterator[JobSpec]:
        """Yield the jobs of a cluster."""
        for job in document.listed("jobs"):
            yield self._read_job(job.only(JOB_FIELDS))

    def _read_job(self, job: Field) -> JobSpec:
        name = job.get("name").name()
        if name in self._names:
            job.get("name").refuse(f"{name!r} is there twice")
        self._names.add(name)
        root = _read_root(job.get("root_sub_group_set"), len(list(job.listed("tasks"))))
        pod_sets = {pod_set.name for pod_set in root.all_pod_sets()}
        priority, namespace = job.find("priority"), job.find("namespace")
        level = priority.whole() if priority else 50
        preemptible = job.find("preemptible")
        created = job.find("created_minutes_ago")
        allowed, expected = job.find("disruptions_allowed"), job.find("expected_runtime_seconds")
        return JobSpec(
            name=name,
            namespace=namespace.text() if namespace else "",
            queue=self._read_queue(job.get("queue")),
            priority=level,
            preemptible=preemptible.flag() if preemptible else level < PREEMPTIBLE_BELOW,
            created_at=self._ago(created, minutes=True) or self.now,
            last_start=self._ago(job.find("last_start_seconds_ago")),
            stale_since=self._ago(job.find("stale_seconds")),
            checkpointed_at=self._ago(job.find("checkpoint_seconds_ago")),
            disruptions_allowed=allowed.whole(at_least=0) if allowed else None,
            expected_runtime=(timedelta(seconds=expected.number(at_least=0)) if expected else None),
            root=root,
            tasks=tuple(
                self._read_task(t.only(TASK_FIELDS), pod_sets) for t in job.listed("tasks")
            ),
        )

    def _read_queue(self, queue: Field) -> str:
        name = queue.name()
        if self.keep_lost:
            return name
        if name not in self.queues:
            queue.refuse(f"no queue is called {name!r}")
        if name in self.inner_queues:
            queue.refuse(f"queue {name!r} has queues in it, so it cannot have jobs")
        return name

    def _ago(self, ago: Field | None, *, minutes: bool = False) -> datetime | None:
        if ago is None:
            return None
        seconds = ago.number() * (60 if minutes else 1)
        return self.now - timedelta(seconds=seconds)

    def _read_task(self, task: Field, pod_sets: set[str]) -> TaskSpec:
        uid = task.get("uid").name()
        if uid in self._uids:
            task.get("uid").refuse(f"{uid!r} is there twice")
        self._uids.add(uid)
        status = _read_status(task.get("status"))
        sub_group = task.find("sub_group")
        group = sub_group.text() if sub_group else "default"
        if group not in pod_sets:
            (sub_group or task).refuse(f"the job has no pod set {group!r}")
        order, legacy = task.find("order_priority"), task.find("legacy_mig")
        affinity_in = task.find("node_affinity_in")
        selector, nominated = task.find("node_selector"), task.find("nominated_node")
        config_maps = task.find("config_maps")
        return TaskSpec(
            uid=uid,
            status=status,
            node=self._read_node(task, status),
            sub_group=group,
            gpu_groups=_read_groups(task, uid),
            request=self._read_request(task.get("request")),
            created_at=self._ago(task.find("created_minutes_ago"), minutes=True),
            order_priority=None if order is None else str(order.value),
            labels=_read_labels(task),
            node_selector=selector.labels() if selector else {},
            node_affinity_in=affinity_in.texts() if affinity_in else (),
            affinity=_read_terms(task, "affinity", "pod_affinity_topology_key"),
            anti_affinity=_read_terms(task, "anti_affinity", "pod_anti_affinity_topology_key"),
            preferred_affinity=tuple(
                _read_term(term, weighted=True) for term in task.listed("preferred_affinity")
            ),
            tolerations=tuple(_read_toleration(t) for t in task.listed("tolerations")),
            host_ports=tuple(port.whole(at_least=1) for port in task.listed("host_ports")),
            config_maps=config_maps.texts() if config_maps else (),
            nominated_node=nominated.text() if nominated else None,
            legacy_mig=legacy.flag() if legacy else False,
            claims=tuple(_read_claim_use(use) for use in task.listed("resource_claims")),
        )

    def _read_request(self, request: Field) -> Request:
        written = repr(request.value)
        known = self._requests.get(written)
        if known is None:
            known = self._requests[written] = read_request(request)
        return known

    def _read_node(self, task: Field, status: TaskStatus) -> str | None:
        node = task.find("node")
        if node is None:
            if status & ON_NODE:
                task.refuse(f"a task that is {status.title} must be on a node")
            return None
        # Where a task without a place was once meant to go does not matter to a case.
        matters = bool(status & ON_NODE) or not self.keep_lost
        if matters and node.text() not in self.nodes:
            node.refuse(f"no node is called {node.text()!r}")
        return node.text()


def _read_status(status: Field) -> TaskStatus:
    found = STATUS_BY_TITLE.get(status.text())
    if found is None:
        status.refuse(f"{status.text()!r} is not one of {', '.join(STATUS_BY_TITLE)}")
    return found


def _read_root(root: Field, tasks: int) -> SubGroupSpec:
    group = _read_group(root)
    names = [pod_set.name for pod_set in group.all_pod_sets()]
    if len(names) != len(set(names)):
        root.refuse("two pod sets have the same name")
    if not names:
        return SubGroupSpec(
            name=group.name,
            topology=group.topology,
            pod_sets=(PodSetSpec(name="default", min_available=max(1, tasks)),),
        )
    return group


def _read_group(group: Field) -> SubGroupSpec:
    group.only({"name", "topology_constraint", "groups", "pod_sets"})
    name = group.find("name")
    return SubGroupSpec(
        name=name.text() if name else "",
        topology=_read_constraint(group.find("topology_constraint")),
        groups=tuple(_read_group(child) for child in group.listed("groups")),
        pod_sets=tuple(_read_pod_set(pod_set) for pod_set in group.listed("pod_sets")),
    )


def _read_pod_set(pod_set: Field) -> PodSetSpec:
    pod_set.only({"name", "min_available", "topology_constraint"})
    return PodSetSpec(
        name=pod_set.get("name").name(),
        min_available=pod_set.get("min_available").whole(at_least=0),
        topology=_read_constraint(pod_set.find("topology_constraint")),
    )


def _read_constraint(constraint: Field | None) -> TopologyConstraint | None:
    if constraint is None:
        return None
    constraint.only({"topology", "required_level", "preferred_level"})
    required, preferred = constraint.find("required_level"), constraint.find("preferred_level")
    return TopologyConstraint(
        topology=constraint.get("topology").text(),
        required_level=required.text() if required else "",
        preferred_level=preferred.text() if preferred else "",
    )


def _read_groups(task: Field, uid: str) -> tuple[str, ...]:
    """Return the shared GPUs a task is on; those to be invented are named after the task."""
    groups, invented = task.find("gpu_groups"), task.find("auto_gpu_groups")
    names = groups.texts() if groups else ()
    count = invented.whole(at_least=0) if invented else 0
    return (*names, *(f"auto/{uid}/{number}" for number in range(count)))


def _read_labels(task: Field) -> dict[str, str]:
    labels: dict[str, str] = {}
    for key in ("pod_labels", "labels"):
        found = task.find(key)
        labels.update(found.labels() if found else {})
    return labels


def _read_terms(task: Field, key: str, short: str) -> tuple[AffinityTerm, ...]:
    """Return affinity terms; the short form selects tasks by the task's own labels."""
    terms = [_read_term(term, weighted=False) for term in task.listed(key)]
    topology_key, own = task.find(short), task.find("pod_labels")
    if topology_key is not None:
        labels = own.labels() if own else {}
        terms.append(AffinityTerm(topology_key=topology_key.name(), labels=labels))
    return tuple(terms)


def _read_term(term: Field, *, weighted: bool) -> AffinityTerm:
    term.only({"topology_key", "labels", "weight"} if weighted else {"topology_key", "labels"})
    return AffinityTerm(
        topology_key=term.get("topology_key").name(),
        labels=term.get("labels").labels(),
        weight=term.get("weight").whole() if weighted else 0,
    )


def _read_toleration(toleration: Field) -> Toleration:
    toleration.only({"key", "value", "effect"})
    key, value, effect = (toleration.find(name) for name in ("key", "value", "effect"))
    return Toleration(
        key=key.text() if key else "",
        value=value.text() if value else None,
        effect=effect.text() if effect else None,
    )


def _read_claim_use(use: Field) -> ClaimUse:
    use.only({"pod_claim_name", "claim", "from_template"})
    claim, name = use.find("claim"), use.find("pod_claim_name")
    template = use.find("from_template")
    if claim is None and name is None:
        use.refuse("claim is missing")
    return ClaimUse(
        claim=claim.name() if claim else name.name() if name else "",
        pod_claim_name=name.text() if name else "",
        from_template=template.flag() if template else False,
    )


def read_request(request: Field) -> Request:
    """Return what a task asks for. Parts of a unit count as a whole one."""
    request.only({"cpu_milli", "memory_bytes", "pods", "gpu", "dra_gpus"})
    pods, dra, gpu = request.find("pods"), request.find("dra_gpus"), request.find("gpu")
    return Request(
        cpu_milli=math.ceil(request.get("cpu_milli").number(at_least=0)),
        memory_bytes=math.ceil(request.get("memory_bytes").number(at_least=0)),
        pods=pods.whole(at_least=0) if pods else 1,
        gpu=_read_gpu(gpu) if gpu else GpuRequest(),
        dra_gpus=dra.whole(at_least=0) if dra else 0,
    )


def _read_gpu(gpu: Field) -> GpuRequest:
    gpu.only({"type", "count", "fraction", "memory_mib", "devices", "instances"})
    name = gpu.get("type").text()
    if name not in list(GpuKind):
        gpu.get("type").refuse(f"{name!r} is not one of {', '.join(GpuKind)}")
    kind = GpuKind(name)
    devices = gpu.find("devices")
    count = devices.whole(at_least=1) if devices else 1
    match kind:
        case GpuKind.NONE:
            return GpuRequest()
        case GpuKind.WHOLE:
            whole = gpu.get("count").whole(at_least=0)
            return GpuRequest(kind=kind, count=whole) if whole else GpuRequest()
        case GpuKind.FRACTION:
            fraction = gpu.get("fraction").number(at_least=0.01, at_most=1)
            return GpuRequest(kind=kind, fraction=fraction, devices=count)
        case GpuKind.MEMORY:
            memory = gpu.get("memory_mib").whole(at_least=1)
            return GpuRequest(kind=kind, memory_mib=memory, devices=count)
        case GpuKind.MIG:
            return GpuRequest(kind=kind, mig=gpu.get("instances").counts())
