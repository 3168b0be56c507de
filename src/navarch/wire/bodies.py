"""Bodies of the JSON API that are not values of the ports themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from navarch.core.access import Grant
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import CommandId, NodeId, PoolName, TokenName
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command, CommandKind
from navarch.ports.adoption import MachineChoice

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Items(Generic[T]):
    """A whole list."""

    items: tuple[T, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The reason for a request."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to create, and why."""

    name: TokenName
    grant: Grant
    expires_in: timedelta | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """How long the old secret of a token and its new one are accepted."""

    overlap: timedelta
    expires_in: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The person who makes a request."""

    author: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAnswer:
    """What a channel answered to a test."""

    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Why a placed job goes back to its queue, and which of its placements is meant."""

    reason: str = ""
    placed_at: datetime | None = None
    """When that placement began; None: the present one."""
    node: NodeId | None = None
    """The node on which the program failed first; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The deferred actions to release: of some nodes, or of a whole pool."""

    nodes: tuple[NodeId, ...] = ()
    pool: PoolName | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptRequest:
    """The running machines that a pool takes in."""

    machines: MachineChoice
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request for a join token."""

    again: bool = False
    """True to issue a token although a machine has joined already; the next replaces it."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPass:
    """The join token of a node's machine."""

    node: NodeId
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The new size of a pool."""

    nodes: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A command for an agent."""

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
    """The commands that an agent has not acknowledged yet."""

    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The results of a node's checks."""

    node: NodeId
    report: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The status of a node after a report."""

    status: NodeStatus | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The acknowledgement of a command."""

    node: NodeId
    command: CommandId


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a command."""

    node: NodeId
    command: CommandId
    succeeded: bool
    result: str = ""
