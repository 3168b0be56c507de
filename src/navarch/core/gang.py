"""Gangs: machines that are useful only together, and only near each other."""

from dataclasses import dataclass

from navarch.core.offering import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Machines of one kind within one block, bought all or none."""

    id: str
    """The name of the gang and of its placement group at the provider."""
    nodes: int
    offering: Offering
    """The offering of all its machines: a block is at one place."""
