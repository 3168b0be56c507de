"""Repeats a commit after a conflict."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from navarch.core.errors import ConflictError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ATTEMPTS_MAX = 20


async def until_no_conflict(attempt: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Return the result of `attempt`, repeated as long as it raises ConflictError."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await attempt(*args)
        except ConflictError:
            continue
    return await attempt(*args)
