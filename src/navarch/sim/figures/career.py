"""Careers: the journal's account of each node, turn by turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.drafting import drafted
from navarch.core.event import Recorded
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus, Phase


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How a node stood after one event."""

    at: datetime
    kind: str
    reason: str
    phase: str
    health: str
    cordoned: bool
    retiring: bool
    surplus: bool
    registered: bool

    @property
    def status(self) -> str:
        """The word that operators saw, or the phase before the agent had registered."""
        if not self.registered:
            return self.phase
        if self.phase == Phase.GONE:
            return NodeStatus.TERMINATED
        if self.phase in (Phase.DRAINING, Phase.TERMINATING):
            return NodeStatus.DRAINING
        if self.health == Health.UNHEALTHY:
            return NodeStatus.UNHEALTHY
        return NodeStatus.CORDONED if self.cordoned else NodeStatus.ACTIVE

    @property
    def serving(self) -> bool:
        """Whether new work may start there."""
        return (
            self.registered
            and self.phase == Phase.READY
            and not self.cordoned
            and not self.retiring
            and self.health != Health.UNHEALTHY
        )


@dataclass(slots=True, kw_only=True)
class Career:
    """One node's life as the journal has it."""

    node: NodeId
    replaces: NodeId | None = None
    turns: list[Turn] = field(default_factory=list)

    def first(self, after: datetime, *, serving: bool) -> Turn | None:
        """Return the first turn from a moment on that leaves the node in service, or out of it."""
        return next((t for t in self.turns if t.at >= after and t.serving is serving), None)

    def found(self, after: datetime) -> Turn | None:
        """Return the first turn from a moment on that says that something is wrong."""
        bad = (Health.DEGRADED, Health.UNHEALTHY)
        return next(
            (
                t
                for t in self.turns
                if t.at >= after and t.kind == "node.health" and t.health in bad
            ),
            None,
        )

    def departures(self) -> Iterable[Turn]:
        """Yield each turn with which the node left service."""
        served = False
        for turn in self.turns:
            serving = turn.serving
            if served and not serving:
                yield turn
            served = serving


def read_careers(journal: Iterable[Recorded]) -> dict[NodeId, Career]:
    """Return each node's career, in the order in which they began."""
    careers: dict[NodeId, Career] = {}
    for entry in journal:
        event = entry.event
        sort, _, name = event.about.partition("/")
        if sort != "node":
            continue
        node = NodeId(name)
        career = careers.get(node)
        if career is None:
            career = careers[node] = Career(node=node)
        if event.kind == "node.requested":
            career.replaces = next(
                (NodeId(x.partition("/")[2]) for x in event.because if x.startswith("node/")), None
            )
        last = career.turns[-1] if career.turns else None
        surplus = event.kind == "node.retiring" and any(
            subject.startswith("pool/") for subject in event.because
        )
        career.turns.append(
            Turn(
                at=event.at,
                kind=event.kind,
                reason=event.reason,
                phase=event.facts.get("phase") or _phase(event.kind, last),
                health=event.facts.get("health") or (last.health if last else Health.UNKNOWN),
                cordoned=_cordoned(event.kind, last),
                retiring=event.kind == "node.retiring" or (last is not None and last.retiring),
                surplus=surplus or (last is not None and last.surplus),
                registered=event.kind == "node.registered"
                or (last is not None and last.registered),
            )
        )
    return careers


_PHASES = frozenset(Phase)


def _phase(kind: str, last: Turn | None) -> str:
    named = kind.partition(".")[2]
    if named in _PHASES:
        return named
    return last.phase if last else Phase.REQUESTED


def _cordoned(kind: str, last: Turn | None) -> bool:
    if kind in ("node.cordoned", "node.draining"):
        return True
    return kind != "node.uncordoned" and last is not None and last.cordoned
