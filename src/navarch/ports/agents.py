"""The API for agents: registration, reports, heartbeats and join tokens."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import msgspec

from navarch.core.boot_report import BootReport
from navarch.core.errors import UnreachableError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId, Token
from navarch.core.incident import Evidence
from navarch.core.instance import Inventory, NodeMetrics, Sample
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus
from navarch.core.ownership import Joiner
from navarch.core.recovery import Command


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The registration of a machine. Repeating it is harmless and changes no decision."""

    node: NodeId
    token: Token | None = None
    """The launch that created the machine, if the machine has it: proof of its identity."""
    boot_id: str = ""
    place: Offering | None = None
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    report: HealthReport | None = None
    """The first results of its checks, if there are any. They are evaluated together with the
    registration, so a machine that boots with a fault never counts as healthy."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a registration."""

    node: NodeId
    """The name of the node in the control plane, which may differ from the one in the request."""
    heartbeat_interval: timedelta
    health_check_interval: timedelta
    status: str = ""
    """The node's status after the report in the registration. Empty if there was none or it was
    not processed: the agent then sends the report separately."""


class AgentApi(Protocol):
    """The control plane as agents see it. Every call may be repeated."""

    async def register(self, registration: Registration, *, link: str = "") -> Welcome:
        """Register a machine.

        `link` names the listener that received the registration, such as `10.0.0.5:8080/http`. The
        server names it: an agent could name any.
        """

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Record a heartbeat of `node`; return the commands it has not acknowledged yet.

        Raises NotFoundError for a node that never registered: it should register.
        """

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that `node` has not acknowledged yet, without a heartbeat."""

    def resolve(self, name: NodeId) -> NodeId:
        """Return the node of an agent that may go by the name of its machine at the provider."""

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Report the results of checks; return the node's status after them."""

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Report readings that were taken while the control plane could not be reached."""

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge the receipt of a command."""

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the outcome of a command."""


class BootDesk(Protocol):
    """The receiver of reports from boot scripts."""

    async def report_boot(self, report: BootReport) -> None:
        """Record a step of a machine that boots. It has no effect once its agent has registered."""


Sooner = Callable[[datetime], None]
"""Called with an earlier time than expected at which a result may change."""


class Liveness(Protocol):
    """The heartbeats of all nodes, as a summary: callers never see single heartbeats."""

    @property
    def timeout(self) -> timedelta:
        """How long after its last heartbeat a node is overdue."""

    def last_heartbeat(self, node: NodeId) -> datetime | None:
        """Return the time of the last heartbeat of `node` in this process."""

    def silent_since(self, node: NodeId) -> datetime | None:
        """Return the time from which the silence of `node` counts, if it is overdue; else None.

        That is its last heartbeat, or later if no heartbeat could be received for a while.
        """

    def silent(self) -> Mapping[NodeId, datetime]:
        """Return every overdue node with the time from which its silence counts."""

    def next_change(self) -> datetime | None:
        """Return when the next node becomes overdue unless heartbeats arrive; None for never."""

    def overdue_from(self) -> datetime | None:
        """Return when the first node becomes overdue unless heartbeats arrive, or has become so."""

    def has_reported(self, node: NodeId) -> bool:
        """Return whether `node` has sent a heartbeat since this process started.

        Heartbeats before that prove nothing about the node, in either direction.
        """

    def subscribe(self, listener: Sooner) -> None:
        """Call `listener` when a result may change sooner than `next_change` returned.

        That is after the first heartbeat of a node, or the first one after silence.
        """


class Joins(Protocol):
    """Binds machines to nodes."""

    def recognize(self, shown: str) -> Joiner:
        """Return the node and launch of a join token, or raise UnauthenticatedError."""

    def check_expected(self, joiner: Joiner) -> None:
        """Raise UnauthenticatedError unless the machine of a join token is still expected."""

    async def admit(self, joiner: Joiner, registration: Registration) -> Registration:
        """Bind a known node to the machine; return the registration with what its token proves."""

    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has joined; no other machine can join as it."""


@runtime_checkable
class JoinApi(Protocol):
    """The API for join tokens, served in-process and over HTTP."""

    async def issue_join_token(self, node: NodeId, *, again: bool = False, reason: str = "") -> str:
        """Return the token with which the machine of a node joins.

        Raises NotPossibleError if no machine is expected: none was bought, or one has joined
        already; with `again`, another machine may replace that one.
        """


class UnauthorizedError(UnreachableError):
    """The control plane does not accept the token. An operator may correct that later."""


class Link(Protocol):
    """The control plane over the network. Every call may be repeated.

    Calls raise UnreachableError if it is unknown whether they took effect, NotFoundError if the
    control plane does not have the node (it should register again) or the command, InvalidError,
    ConflictError and NotPossibleError with the message of the control plane.

    ```python
    welcome = await link.register(Registration(node=NodeId("gpu-7")))
    for command in await link.heartbeat(welcome.node, metrics, sequence=1):
        await link.acknowledge(welcome.node, command.id)
    ```
    """

    async def register(self, registration: Registration) -> Welcome:
        """Register the machine."""

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Send a heartbeat; return the commands that `node` has not acknowledged yet."""

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Report the results of checks; return the node's status after them, if known."""

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Report readings that were taken while the control plane could not be reached."""

    async def report_evidence(self, evidence: Evidence) -> None:
        """Send a bundle of evidence."""

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge the receipt of a command."""

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the outcome of a command."""

    async def close(self) -> None:
        """Close the connection."""
