"""What to do about a node whose hardware is not well."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from navarch.core.node import Node
from navarch.core.pool import Pool


class Remedy(StrEnum):
    """What can be done."""

    CORDON = "cordon"
    """Keep new work off it."""
    REPLACE = "replace"
    """Move its work away, give it back, and get another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """A remedy, and the sentence that explains it."""

    remedy: Remedy
    reason: str


class Remediator(Protocol):
    """Decides about one node, from what is known of it. Pure; asked again at every change.

    ```python
    class AlertOnly:
        def remediate(self, pool: Pool, node: Node) -> Treatment | None:
            return None
    ```
    """

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return what to do about `node`, or None to leave it alone."""
        ...
