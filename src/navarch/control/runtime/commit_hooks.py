"""Commit hooks: what follows from a change for other records, written in the same commit."""

from collections.abc import Awaitable, Callable

from navarch.core.fleet import Change, Fleet

CommitHook = Callable[[Change, Fleet], Awaitable[Change]]
"""Returns a change of a fleet with what follows from it. It is called again for each attempt."""


async def no_hook(change: Change, fleet: Fleet) -> Change:
    """Return `change`: nothing follows from it."""
    del fleet
    return change
