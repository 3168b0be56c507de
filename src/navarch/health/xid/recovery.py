"""What the driver itself says a GPU needs: XID 154, NVML's field 230 and event 0x8000.

Always by its number. The words next to it changed between R565 and R610, and will again.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from navarch.health.xid.action import Action

FIELD = 230
EVENT = 0x8000


class Recovery(IntEnum):
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
class Demand:
    """What a recovery action means for us."""

    action: Action
    fatal: bool
    words: str


_DEMANDS: dict[int, Demand] = {
    Recovery.NONE: Demand(action=Action.NONE, fatal=False, words="nothing more is needed"),
    Recovery.RESET_GPU: Demand(action=Action.RESET_GPU, fatal=True, words="a GPU reset"),
    Recovery.REBOOT_NODE: Demand(action=Action.REBOOT_NODE, fatal=True, words="a reboot"),
    # Work that keeps to one GPU may go on until the reset.
    Recovery.DRAIN_P2P: Demand(
        action=Action.RESET_GPU, fatal=False, words="an end of peer-to-peer work, then a reset"
    ),
    Recovery.DRAIN_AND_RESET: Demand(
        action=Action.RESET_GPU, fatal=True, words="a drain and a GPU reset"
    ),
    Recovery.RECOVER_IMEX: Demand(
        action=Action.CHECK_FABRIC, fatal=False, words="a recovery of the IMEX domain"
    ),
    # Tenants cannot reset a bus; a reboot does it for them.
    Recovery.RESET_BUS: Demand(action=Action.REBOOT_NODE, fatal=True, words="a bus reset"),
    Recovery.REBOOT_SYSTEM: Demand(
        action=Action.REBOOT_NODE, fatal=True, words="a reboot of the whole system"
    ),
}

_CHANGED = re.compile(r"\bto\s+(0x[0-9a-fA-F]+|\d+)\b")


def demand(number: int) -> Demand:
    """Return what recovery action `number` means; one we do not know decides nothing."""
    unknown = Demand(action=Action.DYNAMIC, fatal=False, words=f"recovery action {number}")
    return _DEMANDS.get(number, unknown)


def parse_recovery(text: str) -> int | None:
    """Return the new number in the text of an XID 154, or None where it was cut off."""
    found = _CHANGED.search(text)
    return None if found is None else int(found[1], 0 if found[1].startswith("0x") else 10)
