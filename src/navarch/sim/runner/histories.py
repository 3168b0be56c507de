"""Histories: each node's timeline and what was done to each machine, node by node."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import overload

from navarch.core.ids import NodeId
from navarch.core.node import Node, node_status
from navarch.sim.figures.timeline import NodeTimeline
from navarch.sim.figures.truth import InjectedFault
from navarch.sim.runner.outcome import NodeEntry, NodeHistory


class NodeHistories(Sequence[NodeHistory]):
    """What happened to every node, in order.

    Built on first access: most runs are judged by their figures, and the history of a long run
    is large.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        timelines: Mapping[NodeId, NodeTimeline],
        faults: Iterable[InjectedFault],
        *,
        began: datetime,
    ) -> None:
        self._nodes = list(nodes)
        self._timelines = timelines
        self._faults = tuple(faults)
        self._began = began

    @cached_property
    def _histories(self) -> tuple[NodeHistory, ...]:
        return node_histories(self._nodes, self._timelines, self._faults, began=self._began)

    @overload
    def __getitem__(self, index: int) -> NodeHistory: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[NodeHistory, ...]: ...

    def __getitem__(self, index: int | slice) -> NodeHistory | tuple[NodeHistory, ...]:
        return self._histories[index]

    def __len__(self) -> int:
        return len(self._nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._histories == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def node_histories(
    nodes: Iterable[Node],
    timelines: Mapping[NodeId, NodeTimeline],
    faults: Sequence[InjectedFault],
    *,
    began: datetime,
) -> tuple[NodeHistory, ...]:
    """Return what happened to every node, in order."""
    entries: dict[NodeId, list[tuple[datetime, int, NodeEntry]]] = {}

    def add(node: NodeId, at: datetime, rank: int, kind: str, text: str, status: str = "") -> None:
        at_s = round((at - began).total_seconds(), 3)
        entry = NodeEntry(at_s=at_s, kind=kind, text=text, status=status)
        entries.setdefault(node, []).append((at, rank, entry))

    for node, timeline in timelines.items():
        for at, kind, reason, state in timeline.changes:
            add(node, at, 1, kind, reason, state.status)
    for fault in faults:
        add(fault.node, fault.at, 0, "failure", f"{fault.detail} ({fault.cause})")
        if fault.cleared_at is not None and fault.cleared_at > fault.at:
            add(fault.node, fault.cleared_at, 0, "mended", fault.detail)
    failures = Counter(fault.node for fault in faults)
    return tuple(_history(node, entries.get(node.id, []), failures[node.id]) for node in nodes)


def _history(
    node: Node, entries: list[tuple[datetime, int, NodeEntry]], failures: int
) -> NodeHistory:
    place = node.place
    return NodeHistory(
        node=node.id,
        provider=place.provider if place else "",
        region=place.region if place else "",
        zone=place.zone if place else "",
        instance_type=place.instance_type if place else "",
        gpus=node.gpus or 0,
        gpu_type=place.gpu_type if place else "",
        labels=dict(node.labels),
        pool=node.pool or "",
        status=str(node_status(node) or node.phase),
        health=str(node.health),
        failures=failures,
        entries=tuple(entry for _, _, entry in sorted(entries, key=lambda item: item[:2])),
    )
