"""A node that there is a reason to replace, sound as it may be."""

from dataclasses import dataclass

from navarch.core.disruption import Cause
from navarch.core.ids import NodeId
from navarch.core.offering import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node, and why it should go once its replacement serves."""

    node: NodeId
    cause: Cause
    reason: str
    successor: Offering | None = None
    """What its replacement must be; anything that the pool buys if None."""
