"""Gangs: machines that are of use only together, and only near each other."""

from dataclasses import dataclass

from navarch.core.offering import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """So many machines of one kind within one block: all of them, or none."""

    id: str
    """Its name, and that of the group in which its provider places it."""
    nodes: int
    offering: Offering
    """What all of it is bought from: a block is at one place."""
