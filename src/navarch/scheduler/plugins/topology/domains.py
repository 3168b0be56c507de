"""The tree of topology domains (zones, racks, nodes), and the room that each has for tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.request import GpuKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.model.cluster import Topology
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node


class Domain:
    """One domain of one level, with its nodes from a given set."""

    __slots__ = ("children", "id", "level", "nodes", "ratio", "room")

    def __init__(self, domain_id: str, level: int) -> None:
        self.id = domain_id
        self.level = level
        """0 for the whole topology, 1 for its widest level, and so on."""
        self.children: list[Domain] = []
        self.nodes: list[Node] = []
        self.room: int | None = None
        """How many of the tasks fit, None if they cannot be counted."""
        self.ratio = 0.0
        """Requested resources relative to free ones; above 1 the tasks do not fit."""

    def at_level(self, level: int) -> Iterator[Domain]:
        """Yield the domains of a level within this one, in order."""
        if self.level == level:
            yield self
            return
        for child in self.children:
            yield from child.at_level(level)


def build_tree(topology: Topology, nodes: Sequence[Node]) -> Domain:
    """Return the tree of the nodes that have a label for every level."""
    root = Domain("", 0)
    known: dict[str, Domain] = {"": root}
    for node in nodes:
        values = [node.labels.get(label) for label in topology.levels]
        path = [value for value in values if value is not None]
        if len(path) < len(values):
            continue
        root.nodes.append(node)
        parent = root
        for depth in range(1, len(path) + 1):
            domain_id = ".".join(path[:depth])
            domain = known.get(domain_id)
            if domain is None:
                domain = known[domain_id] = Domain(domain_id, depth)
                parent.children.append(domain)
            domain.nodes.append(node)
            parent = domain
    return root


def lowest_common(root: Domain, deepest: int) -> Domain:
    """Return the smallest domain with all the nodes, at level `deepest` or above."""
    while len(root.children) == 1 and root.level < deepest:
        root = root.children[0]
    return root


MISSING = 1000.0
"""The ratio of requested to free resources if nothing is free."""

Needs = dict[str, float]


def measure(domain: Domain, tasks: Sequence[Task]) -> None:
    """Set room and ratio of the domain and of all domains within it."""
    needs = [_needs(task) for task in tasks]
    total: Needs = {}
    largest: Needs = {}
    for need in needs:
        for name, amount in need.items():
            total[name] = total.get(name, 0.0) + amount
            largest[name] = max(largest.get(name, 0.0), amount)
    _measure(domain, total, largest if homogeneous(tasks) else None)


def fits(domain: Domain, tasks: int) -> bool:
    """Return whether the domain can hold all the tasks."""
    return domain.room >= tasks if domain.room is not None else domain.ratio <= 1


def homogeneous(tasks: Sequence[Task]) -> bool:
    """Return whether the tasks request the same kinds of resources, so that they can be counted."""
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


def _ratio(requested: float, free: float) -> float:
    if requested == 0:
        return 0.0
    return requested / free if free > 0 else MISSING


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
