"""Careers: the journal's account of each node, turn by turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

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
    serving: bool
    """Whether new work may start there."""

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
            if served and not turn.serving:
                yield turn
            served = turn.serving


def read_careers(journal: Iterable[Recorded]) -> dict[NodeId, Career]:
    """Return each node's career, in the order in which they began."""
    by_subject: dict[str, Career] = {}
    for entry in journal:
        event = entry.event
        kind, facts = event.kind, event.facts
        career = by_subject.get(event.about)
        if career is None:
            if event.about[:5] != "node/":
                continue
            career = by_subject[event.about] = Career(node=NodeId(event.about[5:]))
        last = career.turns[-1] if career.turns else _UNBORN
        retiring, surplus = last.retiring, last.surplus
        if kind == "node.requested":
            nodes = [x.partition("/")[2] for x in event.because if x.startswith("node/")]
            career.replaces = NodeId(nodes[0]) if nodes else None
        elif kind == "node.retiring":
            retiring = True
            surplus = surplus or any(x.startswith("pool/") for x in event.because)
        phase = facts.get("phase") or _PHASE_AFTER.get(kind, last.phase)
        health = facts.get("health") or last.health
        cordoned = kind in _CORDONS or (last.cordoned and kind != "node.uncordoned")
        registered = last.registered or kind == "node.registered"
        turn = Turn(
            at=event.at,
            kind=kind,
            reason=event.reason,
            phase=phase,
            health=health,
            cordoned=cordoned,
            retiring=retiring,
            surplus=surplus,
            registered=registered,
            serving=registered
            and phase == Phase.READY
            and not cordoned
            and not retiring
            and health != Health.UNHEALTHY,
        )
        career.turns.append(turn)
    return {career.node: career for career in by_subject.values()}


_PHASE_AFTER: dict[str, str] = {f"node.{phase}": phase for phase in Phase}
_CORDONS = frozenset({"node.cordoned", "node.draining"})
_UNBORN = Turn(
    at=datetime.min.replace(tzinfo=UTC),
    kind="",
    reason="",
    phase=Phase.REQUESTED,
    health=Health.UNKNOWN,
    cordoned=False,
    retiring=False,
    surplus=False,
    registered=False,
    serving=False,
)
"""How a node stands before anything is said of it."""
