"""Histories: each node's timeline and what was done to each machine, node by node."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import overload

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, NodeStatus, node_status
from navarch.ports.store import Committed
from navarch.sim.figures.timeline import InjectedFault, NodeTimeline
from navarch.sim.runner.outcome import Moment, NodeEntry, NodeHistory


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


@dataclass(slots=True)
class NodeCounter:
    """Counts registered nodes that are not gone, by their status."""

    by_status: Counter[NodeStatus] = field(default_factory=Counter)
    degraded: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each check has reported a node degraded or unhealthy."""
    on_unhealthy: Callable[[NodeId], None] = lambda _: None

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.by_status.values())

    def counts(self) -> Moment:
        """Return the numbers of nodes now."""
        return Moment(
            total=self.total,
            active=self.by_status[NodeStatus.ACTIVE],
            unhealthy=self.by_status[NodeStatus.UNHEALTHY],
            degraded=self.degraded,
            cordoned=self.by_status[NodeStatus.CORDONED],
            draining=self.by_status[NodeStatus.DRAINING],
        )

    def watch(self, committed: Committed) -> None:
        """Take one commit into account."""
        for before, node in committed.moved:
            if before is not None:
                self._count(before, -1)
            self._count(node, 1)
            if before is None or before.conditions is not node.conditions:
                known = {(c.check, c.health) for c in before.conditions} if before else set()
                for condition in node.conditions:
                    if (condition.check, condition.health) not in known:
                        kind = condition.check.rpartition("/")[0] or condition.check
                        self.rules[kind, str(condition.health)] += 1
            was_unhealthy = before is not None and before.health is Health.UNHEALTHY
            if node.health is Health.UNHEALTHY and not node.gone and not was_unhealthy:
                self.on_unhealthy(node.id)

    def _count(self, node: Node, change: int) -> None:
        status = None if node.gone else node_status(node)
        if status is not None:
            self.by_status[status] += change
            if node.health is Health.DEGRADED:
                self.degraded += change
