"""Timelines: the state of each node after each of its events in the journal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

import msgspec

from navarch.core.event import Event, Recorded
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus, Phase


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was injected into one machine."""

    node: NodeId
    at: datetime
    kind: str
    """The type of failure."""
    true_health: Health
    """The correct judgement of the machine; healthy if only a program on it failed."""
    xid: int | None = None
    gpu: int | None = None
    cause: str = "event"
    """event, chaos, cascade, correlation, outage or operator; or the software that is at fault."""
    in_machine: bool = True
    """Whether the machine is at fault; if not, its software is, and its hardware is sound."""
    detail: str = ""
    cleared_at: datetime | None = None

    def active(self, at: datetime) -> bool:
        """Return whether the fault was present at a moment."""
        return self.at <= at and (self.cleared_at is None or at < self.cleared_at)


class RequestedOutage(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which an operator or the owner of a machine keeps its node out of service."""

    at: datetime
    over: datetime | None = None

    def active(self, at: datetime) -> bool:
        """Return whether the request was in force at a moment."""
        return self.at <= at and (self.over is None or at < self.over)


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, from its start to its end, and its price."""

    node: NodeId
    gpus: int
    began: datetime
    ended: datetime | None
    price_per_hour: Decimal = Decimal(0)
    pool: str = ""
    """Empty for a machine that no pool bought."""
    token: str = ""
    """The token of the launch; empty for a machine that no pool bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """The facts against which the behaviour of the control plane is measured."""

    began: datetime
    ended: datetime
    faults: tuple[InjectedFault, ...] = ()
    leases: tuple[Lease, ...] = ()
    requested_outages: Mapping[NodeId, Sequence[RequestedOutage]] = field(default_factory=dict)
    """Nodes that an operator took out of service, or that lost a reclaimed machine."""
    replaced_by: Mapping[NodeId, NodeId] = field(default_factory=dict)
    """The new node for each one with a machine that its owner replaced."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeState:
    """The state of a node. Nodes share these objects, which compare by identity."""

    phase: str = Phase.REQUESTED
    health: str = Health.UNKNOWN
    cordoned: bool = False
    retiring: bool = False
    surplus: bool = False
    registered: bool = False
    serving: bool = False
    """Whether new work may start on the node."""

    @property
    def status(self) -> str:
        """The status shown to operators, or the phase before the agent has registered."""
        if not self.registered:
            return self.phase
        if self.phase == Phase.GONE:
            return NodeStatus.TERMINATED
        if self.phase in (Phase.DRAINING, Phase.TERMINATING):
            return NodeStatus.DRAINING
        if self.health == Health.UNHEALTHY:
            return NodeStatus.UNHEALTHY
        return NodeStatus.CORDONED if self.cordoned else NodeStatus.ACTIVE


INITIAL = NodeState()
"""The state of a node before its first event."""

StateChange = tuple[datetime, str, str, NodeState]
"""The time, kind and reason of an event, and the state of the node after it."""


@dataclass(slots=True, kw_only=True)
class NodeTimeline:
    """The events of one node, and its state after each."""

    node: NodeId
    replaces: NodeId | None = None
    state: NodeState = INITIAL
    """The state after the last event."""
    changes: list[StateChange] = field(default_factory=list)
    """Every event, with the state after it."""
    service_changes: list[StateChange] = field(default_factory=list)
    """The changes with which the node entered and left service, alternately."""

    def first(self, after: datetime, *, serving: bool) -> datetime | None:
        """Return the first moment from `after` on at which the node was in service, or not."""
        for at, _, _, state in self.changes:
            if state.serving is serving and at >= after:
                return at
        return None

    def first_detection(self, after: datetime) -> datetime | None:
        """Return the first moment from `after` on at which the node was judged bad."""
        for at, kind, _, state in self.changes:
            if kind == "node.health" and state.health in _BAD and at >= after:
                return at
        return None


@dataclass(slots=True)
class Timelines:
    """The content of a journal, by subject."""

    nodes: dict[NodeId, NodeTimeline] = field(default_factory=dict)
    """The timeline of each node, in order of their first events."""
    pools: list[Event] = field(default_factory=list)
    """The events of pools."""


def read_timelines(journal: Iterable[Recorded]) -> Timelines:
    """Return the timelines of a journal."""
    by_subject: dict[str, NodeTimeline] = {}
    timelines = Timelines()
    for entry in journal:
        event = entry.event
        subject = event.about
        timeline = by_subject.get(subject)
        if timeline is None:
            if subject[:5] == "pool/":
                timelines.pools.append(event)
            if subject[:5] != "node/":
                continue
            node = NodeId(subject[5:])
            timeline = by_subject[subject] = timelines.nodes[node] = NodeTimeline(node=node)
        kind, facts, before = event.kind, event.facts, timeline.state
        if kind == "node.requested":
            timeline.replaces = _replaced(event)
        for_pool = kind == "node.retiring" and any(
            # A part of a gang that is given up is more than its pool wants, too.
            x.startswith(("pool/", "gang/"))
            for x in event.because
        )
        state = _after(before, kind, facts.get("phase"), facts.get("health"), for_pool)
        timeline.state = state
        change = (event.at, kind, event.reason, state)
        timeline.changes.append(change)
        if state.serving is not before.serving:
            timeline.service_changes.append(change)
    return timelines


@lru_cache(maxsize=10_000)
def _after(
    before: NodeState, kind: str, phase: str | None, health: str | None, for_pool: bool
) -> NodeState:
    """Return the state after an event. Nodes share few states, so the cache answers nearly all."""
    phase = phase or _PHASE_AFTER.get(kind, before.phase)
    health = health or before.health
    cordoned = kind in _CORDONS or (before.cordoned and kind != "node.uncordoned")
    retiring = before.retiring or kind == "node.retiring"
    registered = before.registered or kind == "node.registered"
    return NodeState(
        phase=phase,
        health=health,
        cordoned=cordoned,
        retiring=retiring,
        surplus=before.surplus or for_pool,
        registered=registered,
        serving=registered
        and phase == Phase.READY
        and not cordoned
        and not retiring
        and health != Health.UNHEALTHY,
    )


def _replaced(event: Event) -> NodeId | None:
    nodes = (x.partition("/")[2] for x in event.because if x.startswith("node/"))
    return next(map(NodeId, nodes), None)


_BAD = (Health.DEGRADED, Health.UNHEALTHY)
_PHASE_AFTER: dict[str, str] = {f"node.{phase}": phase for phase in Phase}
_CORDONS = frozenset({"node.cordoned", "node.draining"})
