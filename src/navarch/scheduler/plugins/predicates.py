"""Predicates: whether a task can run on a node at all.

Health, kinds of GPUs, labels, taints, ports and affinity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.node_table import (
    CPU_COLUMN,
    GPU_COLUMN,
    MEMORY_COLUMN,
    PODS_COLUMN,
    Fits,
    NodeTable,
)
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import (
    HEALTHY,
    NODE_TYPE_LABEL,
    PREFER_NO_SCHEDULE,
    NodeSpec,
)
from navarch.scheduler.model.fit import Fit, Later
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.placement import Hold
from navarch.scheduler.model.quantity import GPU
from navarch.scheduler.model.request import GpuKind
from navarch.scheduler.plugins.affinity import Neighbours
from navarch.scheduler.plugins.node_scores import BuiltInPlugin

GPU_WORKER_LABEL: Final = "node-role.kubernetes.io/gpu-worker"
CPU_WORKER_LABEL: Final = "node-role.kubernetes.io/cpu-worker"
_COLUMN: Final = {"cpu": CPU_COLUMN, "memory": MEMORY_COLUMN, "gpu": GPU_COLUMN}
SHARED_GPU_CONFIG_MAP: Final = "shared-gpu"
"""Created when the task starts, so it does not have to exist before."""


@dataclass
class Predicates(BuiltInPlugin):
    """Rejects nodes on which a task cannot run, with a reason for each."""

    name: ClassVar[str] = "predicates"

    suspect_nodes: Literal["refuse", "allow"] = field(
        default="refuse", metadata=argument("suspectNodes")
    )
    """Whether a node that health checks suspect receives new work."""

    _session: Session = field(init=False, repr=False)
    _neighbours: Neighbours = field(init=False, repr=False)
    _largest: dict[str, int] = field(init=False, repr=False, default_factory=dict)

    def on_session_open(self, session: Session) -> None:
        """Register the checks."""
        self._session = session
        self._neighbours = Neighbours(session)
        self._prepare_columns(session)
        session.add_pre_predicate_fn(self._check_cluster, scope="static", any_job=True)
        session.add_predicate_fn(self._check_queue, scope="queue")
        session.add_predicate_fn(
            self._check_traits, scope="static", vector=self._match_traits, any_job=True
        )
        session.add_predicate_fn(
            self._check_devices, scope="global", only_for=lambda task: bool(task.spec.claims)
        )
        session.add_predicate_fn(
            lambda task, _job, node: check_pod_slots(task, node),
            scope="node",
            vector=_match_pod_slots,
            any_job=True,
        )
        session.add_predicate_fn(
            lambda task, _job, node: _ports(task, node),
            scope="global",
            only_for=lambda task: bool(task.spec.host_ports),
        )
        session.add_predicate_fn(
            lambda task, _job, node: self._neighbours.objection(task, node),
            scope="global",
            only_for=self._neighbours.concern,
        )

    @staticmethod
    def _prepare_columns(session: Session) -> None:
        """Compute the node columns that predicates use, once, before any job is placed."""
        table = session.node_table()
        table.rows_of(_is_unusual)
        for spec in session.kinds.exemplars:
            for key, value in spec.node_selector.items():
                table.labelled(key, value)

    def _check_cluster(self, task: Task, _job: Job) -> str | None:
        return self._too_large(task) or self._missing_config_maps(task)

    def _too_large(self, task: Task) -> str | None:
        """Return why no node could hold the task even if it were empty."""
        request, gpu = task.request, task.request.gpu
        requested = {
            "cpu": request.cpu_milli,
            "memory": request.memory_bytes,
            "gpu": gpu.devices * GPU if gpu.shared else gpu.whole,
            **gpu.mig,
        }
        largest = {name: (amount, self._most(name)) for name, amount in requested.items()}
        for resource, (amount, most) in largest.items():
            if amount > most:
                shown = [f"{x / GPU:g}" if resource == "gpu" else str(x) for x in (amount, most)]
                return f"no node has that much {resource}: requested {shown[0]}, at most {shown[1]}"
        return None

    def _most(self, resource: str) -> int:
        """Return the amount of a resource on the largest node."""
        if resource not in self._largest:
            nodes = self._session.node_list
            if resource in _COLUMN:
                most = int(nodes.total[:, _COLUMN[resource]].max(initial=0))
            else:
                most = max((spec.mig.get(resource, 0) for spec in nodes.specs), default=0)
            self._largest[resource] = most
        return self._largest[resource]

    def _missing_config_maps(self, task: Task) -> str | None:
        known = self._session.cluster.config_maps
        if known is None:
            return None
        missing = [
            name
            for name in task.spec.config_maps
            if name not in known and not name.endswith(SHARED_GPU_CONFIG_MAP)
        ]
        return f"config maps do not exist: {', '.join(missing)}" if missing else None

    def _check_queue(self, task: Task, job: Job, node: Node) -> str | None:
        verdict = self._session.is_task_allocation_on_node_over_capacity(task, job, node)
        return None if verdict.schedulable else verdict.message

    def _check_traits(self, task: Task, _job: Job, node: Node) -> str | None:
        return (
            check_gpu_kind(task, node)
            or self._health(node)
            or _labels(task, node)
            or _taints(task, node)
            or self._worker_kind(task, node)
        )

    def _match_traits(self, task: Task, job: Job, nodes: NodeTable) -> Fits | None:
        """Return the same as `_check_traits`, running it only for nodes with special properties."""
        fits = np.full(len(nodes), Fit.NOW, dtype=np.int8)
        if task.spec.legacy_mig or task.request.gpu.kind is GpuKind.MIG:
            fits[:] = [
                Fit.NO if self._check_traits(task, job, node) else Fit.NOW for node in nodes.nodes
            ]
            return fits
        for key, value in task.spec.node_selector.items():
            fits[~nodes.labelled(key, value)] = Fit.NO
        if task.spec.node_affinity_in:
            kinds = nodes.label(NODE_TYPE_LABEL)
            fits[[kind not in task.spec.node_affinity_in for kind in kinds]] = Fit.NO
        if self._session.parameters.restrict_node_scheduling:
            label = GPU_WORKER_LABEL if task.requires_gpu else CPU_WORKER_LABEL
            fits[[label not in node.labels for node in nodes.nodes]] = Fit.NO
        for row in nodes.rows_of(_is_unusual):
            if self._check_traits(task, job, nodes.nodes[row]):
                fits[row] = Fit.NO
        return fits

    def _health(self, node: Node) -> str | None:
        health = node.spec.health
        if not health.ready:
            return "the node is not ready"
        if health.cordoned:
            return "the node is cordoned"
        if health.draining:
            return "the node is draining"
        if health.suspect and self.suspect_nodes == "refuse":
            return "the node is suspect"
        return None

    def _worker_kind(self, task: Task, node: Node) -> str | None:
        if not self._session.parameters.restrict_node_scheduling:
            return None
        label = GPU_WORKER_LABEL if task.requires_gpu else CPU_WORKER_LABEL
        return None if label in node.labels else f"the node lacks the label {label}"

    def _check_devices(self, task: Task, _job: Job, node: Node) -> str | None:
        session = self._session
        if not task.spec.claims or not session.parameters.dynamic_resource_allocation:
            return None
        if session.claims.choose(task, node.name, now=False) is None:
            return "the node cannot provide the claimed devices"
        return None


def check_gpu_kind(task: Task, node: Node) -> str | None:
    """Return why the node's GPUs do not match the kind of the request."""
    kind, strategy = task.request.gpu.kind, node.spec.mig_strategy
    if task.spec.legacy_mig:
        return "legacy MIG requests are not supported"
    if kind is GpuKind.NONE:
        return None
    if kind is GpuKind.MIG and not node.is_mig:
        return "the node has no MIG slices"
    if strategy == "single" and kind is not GpuKind.WHOLE:
        return "the node accepts only requests for whole GPUs (MIG strategy single)"
    if strategy == "mixed" and kind is not GpuKind.MIG:
        return "the node accepts only requests for MIG slices (MIG strategy mixed)"
    if kind is GpuKind.MIG and any(t.spec.legacy_mig for t, _ in node.tasks.values()):
        return "the node runs legacy MIG tasks"
    if node.spec.dra_gpus > 0 and kind is not GpuKind.MIG:
        return "the node's GPUs are available only through claims"
    if kind is GpuKind.MEMORY and not node.spec.gpu_memory_synced:
        return "the memory of the node's GPUs is unknown"
    return None


def check_pod_slots(task: Task, node: Node) -> str | None:
    """Return why the node has no slot for the pod; each newly shared GPU needs one more pod."""
    slots = task.request.pods
    if task.request.gpu.shared:
        reused = len(node.groups_with_room(task.request))
        slots += max(0, task.request.gpu.devices - reused)
    free = node.idle.pods + node.releasing.pods
    if slots > free:
        return f"not enough pod slots: {slots} needed, {free} free"
    if slots > node.idle.pods:
        return Later("pod slots are still used by pods that are leaving")
    return None


def _match_pod_slots(task: Task, _job: Job, nodes: NodeTable) -> Fits:
    """Return the same as `check_pod_slots`, for tasks that share no GPU."""
    slots = task.request.pods
    now = slots <= nodes.idle[:, PODS_COLUMN]
    later = slots <= nodes.free[:, PODS_COLUMN]
    return now.astype(np.int8) * later + later


def _is_unusual(spec: NodeSpec) -> bool:
    """Return whether the node can reject tasks for reasons other than labels."""
    if spec.taints or spec.mig_strategy or spec.mig or spec.dra_gpus:
        return True
    return spec.health is not HEALTHY and spec.health != HEALTHY


def _labels(task: Task, node: Node) -> str | None:
    spec = task.spec
    for key, value in spec.node_selector.items():
        if node.labels.get(key) != value:
            return f"the node is not labelled {key}={value}"
    if spec.node_affinity_in and node.labels.get(NODE_TYPE_LABEL) not in spec.node_affinity_in:
        return f"the node's {NODE_TYPE_LABEL} is not one of {', '.join(spec.node_affinity_in)}"
    return None


def _taints(task: Task, node: Node) -> str | None:
    for taint in node.spec.taints:
        if taint.effect == PREFER_NO_SCHEDULE:
            continue
        if not any(toleration.covers(taint) for toleration in task.spec.tolerations):
            return f"the task does not tolerate {taint.key}={taint.value}:{taint.effect}"
    return None


def _ports(task: Task, node: Node) -> str | None:
    wanted = set(task.spec.host_ports)
    if not wanted:
        return None
    temporary: str | None = None
    for other, _ in node.tasks.values():
        taken = wanted.intersection(other.spec.host_ports)
        if other is task or not taken:
            continue
        text = f"port {min(taken)} is taken by {other.uid}"
        if any(
            b.node == node.name and b.hold is not Hold.LEAVING for b in other.placement.bookings
        ):
            return text
        temporary = Later(text)
    return temporary
