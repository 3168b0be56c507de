"""Trying again when somebody else was quicker."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from navarch.core.errors import ConflictError

T = TypeVar("T")

ATTEMPTS_MAX = 20


async def until_no_conflict(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what `attempt` returns, making it again whenever its state was outdated."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await attempt()
        except ConflictError:
            continue
    return await attempt()
