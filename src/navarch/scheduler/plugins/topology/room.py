"""How much of what tasks ask for a domain could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.request import GpuKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task
    from navarch.scheduler.plugins.topology.domains import Domain

MISSING = 1000.0
"""The ratio of asked for to free where nothing is free."""

Needs = dict[str, float]


def measure(domain: Domain, tasks: Sequence[Task]) -> None:
    """Set room and ratio of the domain and of all domains in it."""
    needs = [_needs(task) for task in tasks]
    total: Needs = {}
    largest: Needs = {}
    for need in needs:
        for name, amount in need.items():
            total[name] = total.get(name, 0.0) + amount
            largest[name] = max(largest.get(name, 0.0), amount)
    _measure(domain, total, largest if homogeneous(tasks) else None)


def fits(domain: Domain, tasks: int) -> bool:
    """Say whether the domain could hold all the tasks."""
    return domain.room >= tasks if domain.room is not None else domain.ratio <= 1


def homogeneous(tasks: Sequence[Task]) -> bool:
    """Say whether the tasks ask for the same kinds of things, so that they can be counted."""
    kinds = {(task.requires_gpu, tuple(sorted(task.request.gpu.mig))) for task in tasks}
    return len(kinds) <= 1


def _measure(domain: Domain, total: Needs, largest: Needs | None) -> None:
    free: Needs = {}
    for node in domain.nodes:
        for name, amount in _free(node).items():
            free[name] = free.get(name, 0.0) + amount
    domain.ratio = max((_ratio(amount, free.get(name, 0.0)) for name, amount in total.items()))
    if largest is not None:
        domain.room = sum(_times(largest, _free(node)) for node in domain.nodes)
    for child in domain.children:
        _measure(child, total, largest)


def _times(need: Needs, free: Needs) -> int:
    """Return how often `need` fits into `free`."""
    counts = [free.get(name, 0.0) // amount for name, amount in need.items() if amount > 0]
    return max(0, int(min(counts, default=0)))


def _ratio(asked: float, free: float) -> float:
    if asked == 0:
        return 0.0
    return asked / free if free > 0 else MISSING


def _needs(task: Task) -> Needs:
    request = task.request
    needs: Needs = {"cpu": request.cpu_milli, "memory": request.memory_bytes, "pods": request.pods}
    if request.gpu.kind is GpuKind.MIG:
        needs.update(request.gpu.mig)
    elif task.requires_gpu:
        needs["gpu"] = task.pending_quota.gpu
    return needs


def _free(node: Node) -> Needs:
    idle, releasing = node.idle, node.releasing
    free: Needs = {
        "cpu": idle.cpu + releasing.cpu,
        "memory": idle.memory + releasing.memory,
        "pods": idle.pods + releasing.pods,
        "gpu": node.gpu_to_spare(),
    }
    for profile, count in idle.mig.items():
        free[profile] = count + releasing.mig.get(profile, 0)
    return free
