"""Commands to agents, and the recoveries that they are steps of."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from navarch.core.ids import CommandId, NodeId, RecoveryId


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
    PROBE = "probe"
    """Connect to other nodes. Only the control plane issues it, and does not store it."""


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


class RecoveryStep(StrEnum):
    """A step of repair, mildest first. The order is the ladder."""

    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    POWER_CYCLE = "power_cycle"
    REPLACE = "replace"
    TICKET = "ticket"


LADDER: tuple[RecoveryStep, ...] = tuple(RecoveryStep)


def rung(step: RecoveryStep) -> int:
    """Return how high up the ladder `step` is."""
    return LADDER.index(step)


class RecoveryState(StrEnum):
    """The state of the present step."""

    WAITING = "waiting"
    """Decided, but work still runs on the node."""
    ORDERED = "ordered"
    """Requested. It may or may not have happened, and is not requested again."""
    VERIFYING = "verifying"
    """Reported as done; the checks decide whether it helped."""
    SUCCEEDED = "succeeded"
    REPLACED = "replaced"
    """The node is terminated and replaced."""
    TICKET = "ticket"
    """Automation can do nothing more; an operator has to act."""
    VOID = "void"
    """The reason is gone: the node recovered, was terminated, or booted by itself."""


OVER = frozenset({RecoveryState.SUCCEEDED, RecoveryState.REPLACED, RecoveryState.VOID})
"""A ticket is not the end: the node is kept until an operator repairs or removes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAttempt:
    """One step that was tried or skipped, with its outcome."""

    step: RecoveryStep
    at: datetime
    outcome: str
    ran: bool = False
    """Whether it was requested, and so counts against the budget of its kind."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The repair of one fault of one boot of one node."""

    id: RecoveryId
    node: NodeId
    check: str
    """The check of the condition to clear."""
    cause: str
    boot_id: str
    """The boot during which the fault was observed. Its commands are void in any other boot."""
    gpus: tuple[str, ...] = ()
    """The UUIDs of the affected GPUs; empty if the whole machine is affected."""
    pids: tuple[str, ...] = ()
    """The processes that caused the fault, if an application did."""
    step: RecoveryStep
    state: RecoveryState
    since: datetime
    """When it entered its state."""
    begun_at: datetime
    deadline: datetime | None = None
    """When the present state times out."""
    command: CommandId | None = None
    """The command to the agent for the present step."""
    ordered_boot: str = ""
    """The boot that was running when a reboot or a power cycle was requested."""
    tries: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The number of times each step was requested."""
    history: tuple[RecoveryAttempt, ...] = ()
    cordon: str = ""
    """The reason with which the node was cordoned for it; empty if it was cordoned already."""
    ended_at: datetime | None = None
    incident: str = ""
    """The incident that it belongs to, once they are linked."""

    @property
    def over(self) -> bool:
        """Whether the recovery has ended."""
        return self.state in OVER


def recovery_id(node: NodeId, boot_id: str, check: str) -> RecoveryId:
    """Return the name of the recovery from one fault of one boot: there is only one."""
    digest = hashlib.sha256(f"{boot_id}\n{check}".encode()).hexdigest()
    return RecoveryId(f"{node}-{digest[:10]}")


CORDON_AND_REPLACE = "cordon_and_replace"
LADDER_STRATEGY = "ladder"
ALERT_ONLY = "alert_only"
BUILT_IN_STRATEGIES = (CORDON_AND_REPLACE, LADDER_STRATEGY, ALERT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """The remediation of one pool's nodes."""

    strategy: str = ""
    """`cordon_and_replace`, `ladder`, `alert_only`, or the name of an extension; empty for the
    default of the control plane."""
    dry_run: bool = False
    """Whether to record all decisions without carrying them out."""
    steps: tuple[RecoveryStep, ...] = ()
    """The steps that a ladder may take; empty for all."""
    reboot_deadline: timedelta = timedelta(minutes=15)
    """How long a machine may take to reboot. Bare metal may need half an hour."""
