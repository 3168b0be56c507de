"""How well a task suits a node, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from navarch.core.event import Shortfall
from navarch.scheduler.model.quantity import GPU
from navarch.scheduler.model.request import GpuKind, Request

if TYPE_CHECKING:
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node


class Fit(IntEnum):
    """Whether a task may go to a node."""

    NO = 0
    LATER = 1
    """Once a task that is leaving has gone."""
    NOW = 2


class Later(str):
    """A predicate's reason that is temporary: it ends when leaving tasks have gone."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnschedulableReason:
    """Why one task cannot go to one node; without a node, why it can go nowhere."""

    task: str
    reason: str
    node: str | None = None
    plugin: str = ""

    @property
    def passes(self) -> bool:
        """Whether the reason ends when leaving tasks have gone."""
        return isinstance(self.reason, Later)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnschedulableJob:
    """Why a job as a whole was not placed: a summary, and details per place that was considered."""

    summary: str
    details: tuple[tuple[str, str], ...] = ()
    level: str = ""
    """The topology level of which one domain had to hold the job."""
    rooms: tuple[tuple[str, int | None], ...] = ()
    """For each domain, how many of the tasks it could hold, if that was computed."""
    wanted: int = 0
    """How many it had to hold."""

    def render(self) -> str:
        """Return the text shown to the job's owner."""
        if not self.details:
            return f"\nPodSchedulingErrors.\n{self.summary}"
        lines = "".join(f"\n<{place}>: {text}" for place, text in self.details)
        return f"\nUnable to schedule podgroup.{lines}\n{self.summary}"


def is_large_enough(node: Node, request: Request) -> bool:
    """Return whether the node could hold the request if it were empty."""
    whole = node.allocatable
    return (
        whole.gpu >= request.gpu.whole
        and whole.cpu >= request.cpu_milli
        and whole.memory >= request.memory_bytes
    )


def shortfall(request: Request, node: Node) -> Shortfall:
    """Return how much a node lacks that is large enough."""
    idle, coming = node.idle, node.releasing
    gpus = max(0.0, (request.gpu.whole - idle.gpu - coming.gpu) / GPU)
    cores = max(0.0, (request.cpu_milli - idle.cpu - coming.cpu) / 1000)
    memory = max(0.0, (request.memory_bytes - idle.memory - coming.memory) / 10**9)
    pods = max(0.0, float(request.pods - idle.pods - coming.pods))
    units = {
        "GPU" if gpus == 1 else "GPUs": gpus,
        "CPU core" if cores == 1 else "CPU cores": cores,
        "GB of memory": memory,
        "pod slot" if pods == 1 else "pod slots": pods,
    }
    words = " and ".join(f"{amount:g} {what}" for what, amount in units.items() if amount)
    return Shortfall(
        node=node.name,
        lacks=words or "a shared GPU or a slice",
        gpus=gpus,
        cpu_cores=cores,
        memory_gb=memory,
        pods=pods,
    )


def how_much(lacking: Shortfall) -> tuple[float, str]:
    """Return what puts the node first that lacks the least."""
    amounts = (lacking.gpus, lacking.cpu_cores, lacking.memory_gb, lacking.pods)
    return (sum(amounts), lacking.node)


def room(node: Node, request: Request) -> int:
    """Return how many of the request the node could hold by its free amounts alone."""
    idle, coming = node.idle, node.releasing
    free = (
        (idle.cpu + coming.cpu, request.cpu_milli),
        (idle.memory + coming.memory, request.memory_bytes),
        (idle.gpu + coming.gpu, request.gpu.whole),
        (idle.pods + coming.pods, request.pods),
    )
    return max(0, min((have // need for have, need in free if need), default=1))


def describe_task(task: Task) -> str:
    """Return a text with the request of a task, and its node labels."""
    asked = describe_request(task.request)
    labels = ", ".join(f"{key}={value}" for key, value in sorted(task.spec.node_selector.items()))
    return f"{asked} on a node labelled {labels}" if labels else asked


def describe_request(request: Request) -> str:
    """Return a text with a request."""
    gpu = request.gpu
    parts = []
    match gpu.kind:
        case GpuKind.WHOLE:
            parts.append(f"{gpu.count} GPUs" if gpu.count != 1 else "1 GPU")
        case GpuKind.FRACTION:
            parts.append(f"{gpu.fraction:g} of {gpu.devices} GPU")
        case GpuKind.MEMORY:
            parts.append(f"{gpu.memory_mib} MiB of {gpu.devices} GPU")
        case GpuKind.MIG:
            parts += [f"{count} x {profile}" for profile, count in sorted(gpu.mig.items())]
        case GpuKind.NONE:
            pass
    if request.cpu_milli:
        parts.append(f"{request.cpu_milli / 1000:g} cores")
    if request.memory_bytes:
        parts.append(f"{request.memory_bytes / 10**9:g} GB")
    return ", ".join(parts) or "a pod slot"
