"""Recoveries: attempts to mend a machine in place, step by step, each written down first."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from navarch.core.ids import CommandId, NodeId, RecoveryId


class RecoveryStep(StrEnum):
    """What can be done about a machine, mildest first. The order is the ladder."""

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
    """How far the present step has come."""

    WAITING = "waiting"
    """Chosen, but work still runs on the node."""
    ORDERED = "ordered"
    """Asked for. It may or may not have happened, and is not asked for again."""
    VERIFYING = "verifying"
    """Said to have happened; the checks have the last word."""
    SUCCEEDED = "succeeded"
    REPLACED = "replaced"
    """The node is given back, and another takes its place."""
    TICKET = "ticket"
    """Nothing more can be done from here; it is for people."""
    VOID = "void"
    """The reason is gone: the node got well, was given back, or booted by itself."""


OVER = frozenset({RecoveryState.SUCCEEDED, RecoveryState.REPLACED, RecoveryState.VOID})
"""A ticket is not the end: the node waits until somebody has made it well, or taken it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAttempt:
    """One step that was tried or passed over, and what came of it."""

    step: RecoveryStep
    at: datetime
    outcome: str
    ran: bool = False
    """Whether it was asked for, and so counts against the budget of its kind."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What is being done about one fault of one boot of one node."""

    id: RecoveryId
    node: NodeId
    check: str
    """The condition it is about."""
    cause: str
    boot_id: str
    """The boot during which the fault was seen. What is ordered for it is void on any other."""
    gpus: tuple[str, ...] = ()
    """The GPUs it is about, by UUID; none where it is the whole machine."""
    pids: tuple[str, ...] = ()
    """The processes it is about, where an application is to blame."""
    step: RecoveryStep
    state: RecoveryState
    since: datetime
    """When it entered its state."""
    begun_at: datetime
    deadline: datetime | None = None
    """When to stop waiting for the present state to pass."""
    command: CommandId | None = None
    """The agent's order for the present step."""
    ordered_boot: str = ""
    """The boot that was running when a reboot or a power cycle was asked for."""
    tries: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How often each step has been asked for."""
    history: tuple[RecoveryAttempt, ...] = ()
    cordon: str = ""
    """The words with which the node was cordoned for it; empty if it was cordoned already."""
    ended_at: datetime | None = None
    incident: str = ""
    """The incident behind it, once somebody has linked the two."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in OVER


def recovery_id(node: NodeId, boot_id: str, check: str) -> RecoveryId:
    """Return the one name for the recovery from one fault of one boot: never two of them."""
    digest = hashlib.sha256(f"{boot_id}\n{check}".encode()).hexdigest()
    return RecoveryId(f"{node}-{digest[:10]}")
