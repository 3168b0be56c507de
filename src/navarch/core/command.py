"""Commands: requests of the control plane to one agent, kept until they end."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from navarch.core.ids import CommandId, NodeId


class CommandKind(StrEnum):
    """The kinds of command."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    DRAIN = "drain"
    RUN_DIAGNOSTIC = "run_diagnostic"
    TERMINATE = "terminate"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"


class CommandStatus(StrEnum):
    """The status of a command."""

    PENDING = "pending"
    ACKNOWLEDGED = "acknowledged"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"


NEXT_STATUSES: dict[CommandStatus, frozenset[CommandStatus]] = {
    # An agent may finish before its acknowledgement arrives.
    CommandStatus.PENDING: frozenset(
        {
            CommandStatus.ACKNOWLEDGED,
            CommandStatus.COMPLETED,
            CommandStatus.FAILED,
            CommandStatus.EXPIRED,
        }
    ),
    CommandStatus.ACKNOWLEDGED: frozenset(
        {CommandStatus.COMPLETED, CommandStatus.FAILED, CommandStatus.EXPIRED}
    ),
    CommandStatus.COMPLETED: frozenset(),
    CommandStatus.FAILED: frozenset(),
    CommandStatus.EXPIRED: frozenset(),
}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one agent. It is delivered until it is acknowledged or expires."""

    id: CommandId
    node: NodeId
    kind: CommandKind
    issued_at: datetime
    expires_at: datetime
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    status: CommandStatus = CommandStatus.PENDING
    ended_at: datetime | None = None
    result: str = ""

    @property
    def over(self) -> bool:
        """Whether the command has ended."""
        return not NEXT_STATUSES[self.status]
