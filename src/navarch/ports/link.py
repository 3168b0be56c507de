"""The connection of an agent to the control plane."""

from collections.abc import Sequence
from typing import Protocol

from navarch.core.command import Command
from navarch.core.errors import UnreachableError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.incident import Evidence
from navarch.core.inventory import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.ports.agents import Registration, Welcome


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
