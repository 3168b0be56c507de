"""The API that the control plane offers to agents."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from navarch.core.command import Command
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId, Token
from navarch.core.inventory import Inventory, NodeMetrics, Sample
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus


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

    async def register(self, registration: Registration) -> Welcome:
        """Register a machine."""

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Record a heartbeat of `node`; return the commands it has not acknowledged yet.

        Raises NotFoundError for a node that never registered: it should register.
        """

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
