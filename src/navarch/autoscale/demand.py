"""Demand: the number of nodes that jobs need."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job or a request for machines: one or several equal parts that run together."""

    gpus: int
    """GPUs of each part."""
    parts: int = 1
    waiting: bool = False


def nodes_needed(work: Iterable[Work], gpus_per_node: int) -> int:
    """Return how many nodes hold all of `work`; a part larger than a node takes whole nodes.

    Uses best fit decreasing, which needs at most 11/9 of the optimal number of nodes.
    """
    assert gpus_per_node > 0, gpus_per_node
    parts = sorted((each.gpus for each in work for _ in range(each.parts)), reverse=True)
    nodes = 0
    free: dict[int, int] = {}
    for part in parts:
        if part <= 0:
            continue
        nodes += part // gpus_per_node
        rest = part % gpus_per_node
        if not rest:
            continue
        room = next((room for room in range(rest, gpus_per_node) if free.get(room)), None)
        if room is None:
            nodes += 1
            room = gpus_per_node
        else:
            free[room] -= 1
        free[room - rest] = free.get(room - rest, 0) + 1
    return nodes
