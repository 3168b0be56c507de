"""What a machine is at: a link that is down means one thing at boot and another under load."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from navarch.core.node import Node, Phase

BUSY_FROM_PCT = 5.0
"""A GPU that is used less than this is idle, for all that a policy can tell."""


class MachinePhase(StrEnum):
    """What a machine is at."""

    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    RESETTING = "resetting"
    DRAINING = "draining"


_COMING = (Phase.REQUESTED, Phase.BOOTING)
_LEAVING = (Phase.DRAINING, Phase.TERMINATING)

RESETS = frozenset({"reset_gpu", "reboot", "power_cycle"})
"""What the machine may have been asked for that makes errors of our own making."""


def machine_phase(
    node: Node,
    *,
    now: datetime,
    boot_grace: timedelta,
    utilization_pct: float | None = None,
    asked: Iterable[str] = (),
) -> MachinePhase:
    """Return what a machine is at; `asked` is what its agent has been asked and has not done.

    A machine that nobody has read lately counts as busy: to be lenient would take a reason.
    """
    if not RESETS.isdisjoint(asked):
        return MachinePhase.RESETTING
    booted_at = node.booted_at or node.registered_at
    if booted_at is None or node.phase in _COMING:
        return MachinePhase.BOOTING
    if now - booted_at < boot_grace:
        return MachinePhase.BOOTING
    if node.phase in _LEAVING:
        return MachinePhase.DRAINING
    if utilization_pct is not None and utilization_pct < BUSY_FROM_PCT:
        return MachinePhase.IDLE
    return MachinePhase.BUSY
