"""The driver's recovery action for a GPU: XID 154, NVML field 230 and event 0x8000.

It is read by number only: the text changed between R565 and R610, and will again.
"""

import re
from typing import NamedTuple

from navarch.health.xid.catalogue import Action


class RequiredRecovery(NamedTuple):
    """The action, severity and description of a recovery code."""

    action: Action
    fatal: bool
    words: str


_REQUIRED = {
    0: RequiredRecovery(Action.NONE, False, "nothing more is needed"),
    1: RequiredRecovery(Action.RESET_GPU, True, "a GPU reset"),
    2: RequiredRecovery(Action.REBOOT_NODE, True, "a reboot"),
    # Work on a single GPU may continue until the reset.
    3: RequiredRecovery(Action.RESET_GPU, False, "an end of peer-to-peer work, then a reset"),
    4: RequiredRecovery(Action.RESET_GPU, True, "a drain and a GPU reset"),
    5: RequiredRecovery(Action.CHECK_FABRIC, False, "a recovery of the IMEX domain"),
    # Tenants cannot reset the bus; a reboot does.
    6: RequiredRecovery(Action.REBOOT_NODE, True, "a bus reset"),
    7: RequiredRecovery(Action.REBOOT_NODE, True, "a reboot of the whole system"),
}
_CHANGED = re.compile(r"\bto\s+(0x[0-9a-fA-F]+|\d+)\b")


def required_recovery(number: int) -> RequiredRecovery:
    """Return what a recovery code requires; an unknown code decides nothing."""
    unknown = RequiredRecovery(Action.DYNAMIC, False, f"recovery action {number}")
    return _REQUIRED.get(number, unknown)


def parse_recovery(text: str) -> int | None:
    """Return the new code in the text of an XID 154, or None if it was cut off."""
    found = _CHANGED.search(text)
    return None if found is None else int(found[1], 0 if found[1].startswith("0x") else 10)
