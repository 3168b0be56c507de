"""The cluster as a tree of domains: zones, racks, and so on down to nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.model.cluster import Topology
    from navarch.scheduler.model.node import Node


class Domain:
    """One domain of one level, with the nodes of a given set that are in it."""

    __slots__ = ("children", "id", "level", "nodes", "ratio", "room")

    def __init__(self, domain_id: str, level: int) -> None:
        self.id = domain_id
        self.level = level
        """0 for the whole topology, 1 for its widest level, and so on."""
        self.children: list[Domain] = []
        self.nodes: list[Node] = []
        self.room: int | None = None
        """How many of the tasks fit, where that can be counted."""
        self.ratio = 0.0
        """Which part of its free resources the tasks would take; above 1 they do not fit."""

    def at_level(self, level: int) -> Iterator[Domain]:
        """Yield the domains of that level in here, in order."""
        if self.level == level:
            yield self
            return
        for child in self.children:
            yield from child.at_level(level)

    def __repr__(self) -> str:
        return f"Domain({self.id or 'root'}, nodes={len(self.nodes)})"


def build_tree(topology: Topology, nodes: Sequence[Node]) -> Domain:
    """Return the tree over those of `nodes` that carry a label for every level."""
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
    """Return the smallest domain that has all the nodes, but none below level `deepest`."""
    while len(root.children) == 1 and root.level < deepest:
        root = root.children[0]
    return root
