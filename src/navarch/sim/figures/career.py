"""Careers: the journal's account of each node, turn by turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from navarch.core.event import Event, Recorded
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus, Phase


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """How a node stands. There are few ways to stand, and all who stand alike share one of these.

    So they are told apart by what they are, and not by looking into them.
    """

    phase: str = Phase.REQUESTED
    health: str = Health.UNKNOWN
    cordoned: bool = False
    retiring: bool = False
    surplus: bool = False
    registered: bool = False
    serving: bool = False
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


UNBORN = Standing()
"""How a node stands before anything is said of it."""

Turn = tuple[datetime, str, str, Standing]
"""An event's moment, its kind and its reason, and how the node stood after it."""


@dataclass(slots=True, kw_only=True)
class Career:
    """One node's life as the journal has it."""

    node: NodeId
    replaces: NodeId | None = None
    stands: Standing = UNBORN
    """As it does after its last turn."""
    turns: list[Turn] = field(default_factory=list)
    flips: list[Turn] = field(default_factory=list)
    """The turns with which it entered service or left it, the first of which it entered with."""

    def first(self, after: datetime, *, serving: bool) -> datetime | None:
        """Return when a turn, from a moment on, first left the node in service, or out of it."""
        for at, _, _, stands in self.turns:
            if stands.serving is serving and at >= after:
                return at
        return None

    def found(self, after: datetime) -> datetime | None:
        """Return when a turn, from a moment on, first said that something is wrong."""
        for at, kind, _, stands in self.turns:
            if kind == "node.health" and stands.health in _BAD and at >= after:
                return at
        return None

    def departures(self) -> Iterable[Turn]:
        """Return the turns with which the node left service."""
        return self.flips[1::2]


@dataclass(slots=True)
class Chronicle:
    """What a journal tells, by what it is about."""

    careers: dict[NodeId, Career] = field(default_factory=dict)
    """Of each node, in the order in which they began."""
    pools: list[Event] = field(default_factory=list)
    """What happened to pools."""


def read_journal(journal: Iterable[Recorded]) -> Chronicle:
    """Return what the journal tells."""
    by_subject: dict[str, Career] = {}
    told = Chronicle()
    for entry in journal:
        event = entry.event
        subject = event.about
        career = by_subject.get(subject)
        if career is None:
            if subject[:5] == "pool/":
                told.pools.append(event)
            if subject[:5] != "node/":
                continue
            node = NodeId(subject[5:])
            career = by_subject[subject] = told.careers[node] = Career(node=node)
        kind, facts, was = event.kind, event.facts, career.stands
        if kind == "node.requested":
            career.replaces = _replaced(event)
        for_pool = kind == "node.retiring" and any(x[:5] == "pool/" for x in event.because)
        stands = _after(was, kind, facts.get("phase"), facts.get("health"), for_pool)
        career.stands = stands
        turn = (event.at, kind, event.reason, stands)
        career.turns.append(turn)
        if stands.serving is not was.serving:
            career.flips.append(turn)
    return told


@lru_cache(maxsize=10_000)
def _after(
    was: Standing, kind: str, phase: str | None, health: str | None, for_pool: bool
) -> Standing:
    """Return how a node stands after an event. The same few follow each other in every career."""
    phase = phase or _PHASE_AFTER.get(kind, was.phase)
    health = health or was.health
    cordoned = kind in _CORDONS or (was.cordoned and kind != "node.uncordoned")
    retiring = was.retiring or kind == "node.retiring"
    registered = was.registered or kind == "node.registered"
    return Standing(
        phase=phase,
        health=health,
        cordoned=cordoned,
        retiring=retiring,
        surplus=was.surplus or for_pool,
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
