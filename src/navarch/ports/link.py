"""An agent's way to the control plane."""

from collections.abc import Sequence
from typing import Protocol

from navarch.core.command import Command
from navarch.core.errors import UnreachableError
from navarch.core.evidence import Evidence
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.ports.agents import Registration, Welcome


class UnauthorizedError(UnreachableError):
    """The control plane does not accept the token. Somebody may still correct that."""


class Link(Protocol):
    """The control plane from afar. Every call may be made twice.

    Calls raise UnreachableError when it is not known whether they took effect, NotFoundError
    where the control plane does not know the node (it should register again) or the command,
    InvalidError, ConflictError and NotPossibleError with the control plane's own words.

    ```python
    welcome = await link.register(Registration(node=NodeId("gpu-7")))
    for command in await link.heartbeat(welcome.node, metrics, sequence=1):
        await link.acknowledge(welcome.node, command.id)
    ```
    """

    async def register(self, registration: Registration) -> Welcome:
        """Introduce the machine."""
        ...

    async def heartbeat(
        self, node: NodeId, metrics: NodeMetrics | None = None, *, sequence: int = 0
    ) -> Sequence[Command]:
        """Say that `node` is alive; return the commands it has not acknowledged yet."""
        ...

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Say what the checks found; return the node's status after it, where that is known."""
        ...

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Hand over readings taken while the control plane could not be reached."""
        ...

    async def report_evidence(self, evidence: Evidence) -> None:
        """Hand over what was true when something was found."""
        ...

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Say that a command has arrived."""
        ...

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Say that a command has been carried out, or could not be."""
        ...

    async def close(self) -> None:
        """Hang up."""
        ...
