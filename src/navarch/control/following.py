"""What follows from a change for others, and is written with it: one commit instead of two."""

from collections.abc import Awaitable, Callable

from navarch.core.fleet import Change, Fleet

Follow = Callable[[Change, Fleet], Awaitable[Change]]
"""Adds to a change of a fleet what it comes to. Asked anew whenever the change is."""


async def by_itself(change: Change, fleet: Fleet) -> Change:
    """Return `change`: nothing follows from it."""
    del fleet
    return change
