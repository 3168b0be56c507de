"""What to do about a node whose hardware is not well."""

from enum import StrEnum
from typing import Protocol

import msgspec

from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep


class Remedy(StrEnum):
    """What can be done."""

    CORDON = "cordon"
    """Keep new work off it; it comes back by itself once it is well."""
    REPLACE = "replace"
    """Move its work away, give it back, and get another."""
    RECOVER = "recover"
    """Try to mend it where it stands, step by step, each verified by checks."""


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy, and the sentence that explains it."""

    remedy: Remedy
    reason: str
    step: RecoveryStep = RecoveryStep.REBOOT
    """For RECOVER: the mildest step worth trying."""
    check: str = ""
    """For RECOVER: the condition that it is about; the worst one if left out."""


class Remediator(Protocol):
    """Decides about one node, from what is known of it. Pure; asked again at every change.

    How many of its decisions are carried out at once is not its business: every one of them
    passes the governor first.

    ```python
    class AlertOnly:
        def remediate(self, pool: Pool, node: Node) -> Treatment | None:
            return None
    ```
    """

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return what to do about `node`, or None to leave it alone.

        If it raises, or returns anything else, nothing is done in `pool` until it works again.
        """
        ...
