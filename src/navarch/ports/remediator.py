"""The port that decides what to do about a faulty node."""

from enum import StrEnum
from typing import Protocol

import msgspec

from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep


class Remedy(StrEnum):
    """The possible actions."""

    CORDON = "cordon"
    """Keep new work off the node until it is healthy again."""
    REPLACE = "replace"
    """Drain the node, terminate it, and launch another."""
    RECOVER = "recover"
    """Try to recover the machine step by step, each step verified by checks."""


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """A remedy, and the sentence that explains it."""

    remedy: Remedy
    reason: str
    step: RecoveryStep = RecoveryStep.REBOOT
    """For RECOVER: the first step to try."""
    check: str = ""
    """For RECOVER: the condition to recover from; the worst one if empty."""


class Remediator(Protocol):
    """Decides about one node from its record. Pure; called again at every change.

    The governor limits how many of its decisions are carried out at once.

    ```python
    class AlertOnly:
        def remediate(self, pool: Pool, node: Node) -> Treatment | None:
            return None
    ```
    """

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return the treatment of `node`, or None for no action.

        If it raises, or returns anything else, nothing is done in `pool` until it works again.
        """
