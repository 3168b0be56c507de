"""What an agent asks of the control plane."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import msgspec

from navarch.core.command import Command
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId, Token
from navarch.core.inventory import Inventory
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.offering import Offering


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's introduction. Repeating it is harmless and changes no decision about the node."""

    node: NodeId
    token: Token | None = None
    """The launch that made the machine, where it was told: proof that it is the right one."""
    boot_id: str = ""
    place: Offering | None = None
    inventory: Inventory = msgspec.field(default_factory=Inventory)
    report: HealthReport | None = None
    """What its checks have found, if they have been made: weighed with the introduction, so that
    a machine that comes up broken is never known as anything else."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to know to do its work."""

    node: NodeId
    """The name under which the control plane knows the machine, which may not be the one given."""
    heartbeat_interval: timedelta
    health_check_interval: timedelta
    status: str = ""
    """The node's status after the report that came with the introduction. It is empty where there
    was none, or where nobody took it: then it is to be sent as any other."""


class AgentApi(Protocol):
    """The control plane as agents see it. Every call may be made twice."""

    async def register(self, registration: Registration) -> Welcome:
        """Introduce a machine."""
        ...

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Say that `node` is alive; return the commands it has not acknowledged yet.

        Raises NotFoundError for a node that never registered: it should register.
        """
        ...

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Say what the checks found; return the node's status after it."""
        ...

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Hand over readings that were taken while the control plane could not be reached."""
        ...

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Say that a command has arrived."""
        ...

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Say that a command has been carried out, or could not be."""
        ...
