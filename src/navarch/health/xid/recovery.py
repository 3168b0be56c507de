"""The driver's recovery action for a GPU: XID 154, NVML field 230 and event 0x8000.

It is read by number only: the text changed between R565 and R610, and will again.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from navarch.health.xid.action import Action

FIELD = 230
EVENT = 0x8000


class RecoveryCode(IntEnum):
    """The driver's recovery actions."""

    NONE = 0
    RESET_GPU = 1
    REBOOT_NODE = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX = 5
    RESET_BUS = 6
    REBOOT_SYSTEM = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredRecovery:
    """The action, severity and description of a recovery code."""

    action: Action
    fatal: bool
    words: str


_REQUIRED: dict[int, RequiredRecovery] = {
    RecoveryCode.NONE: RequiredRecovery(
        action=Action.NONE, fatal=False, words="nothing more is needed"
    ),
    RecoveryCode.RESET_GPU: RequiredRecovery(
        action=Action.RESET_GPU, fatal=True, words="a GPU reset"
    ),
    RecoveryCode.REBOOT_NODE: RequiredRecovery(
        action=Action.REBOOT_NODE, fatal=True, words="a reboot"
    ),
    # Work on a single GPU may continue until the reset.
    RecoveryCode.DRAIN_P2P: RequiredRecovery(
        action=Action.RESET_GPU, fatal=False, words="an end of peer-to-peer work, then a reset"
    ),
    RecoveryCode.DRAIN_AND_RESET: RequiredRecovery(
        action=Action.RESET_GPU, fatal=True, words="a drain and a GPU reset"
    ),
    RecoveryCode.RECOVER_IMEX: RequiredRecovery(
        action=Action.CHECK_FABRIC, fatal=False, words="a recovery of the IMEX domain"
    ),
    # Tenants cannot reset the bus; a reboot does.
    RecoveryCode.RESET_BUS: RequiredRecovery(
        action=Action.REBOOT_NODE, fatal=True, words="a bus reset"
    ),
    RecoveryCode.REBOOT_SYSTEM: RequiredRecovery(
        action=Action.REBOOT_NODE, fatal=True, words="a reboot of the whole system"
    ),
}

_CHANGED = re.compile(r"\bto\s+(0x[0-9a-fA-F]+|\d+)\b")


def required_recovery(number: int) -> RequiredRecovery:
    """Return what a recovery code requires; an unknown code decides nothing."""
    unknown = RequiredRecovery(
        action=Action.DYNAMIC, fatal=False, words=f"recovery action {number}"
    )
    return _REQUIRED.get(number, unknown)


def parse_recovery(text: str) -> int | None:
    """Return the new code in the text of an XID 154, or None if it was cut off."""
    found = _CHANGED.search(text)
    return None if found is None else int(found[1], 0 if found[1].startswith("0x") else 10)
