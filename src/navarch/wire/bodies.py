"""The bodies of our JSON calls that are not values of the ports themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from navarch.core.command import Command, CommandKind
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import CommandId, NodeId, PoolName
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Generic[T]):
    """A whole list."""

    items: tuple[T, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why somebody asks."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Why a placed job goes back to its queue, and which of its placements is meant."""

    reason: str = ""
    placed_at: datetime | None = None
    """When that placement began; None: the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What automation may go ahead with: some nodes, or all that wait in a pool."""

    nodes: tuple[NodeId, ...] = ()
    pool: PoolName | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A wish for a join token."""

    again: bool = False
    """Also if a machine has joined already: the next takes its place."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPass:
    """What the machine of a node shows to be let in."""

    node: NodeId
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size that a pool should have."""

    nodes: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an agent should do."""

    kind: CommandKind
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault for a simulated machine."""

    node: NodeId
    result: CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReadings:
    """Readings that could not be sent when they were taken."""

    node: NodeId
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat."""

    node: NodeId
    metrics: NodeMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What an agent has been asked and has not acknowledged."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the checks found."""

    node: NodeId
    report: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is thought of the node now."""

    status: NodeStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A command has arrived."""

    node: NodeId
    command: CommandId


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A command has been carried out, or could not be."""

    node: NodeId
    command: CommandId
    succeeded: bool
    result: str = ""
