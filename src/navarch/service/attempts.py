"""Trying again when somebody else was quicker."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from navarch.core.errors import ConflictError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ATTEMPTS_MAX = 20


async def until_no_conflict(attempt: Callable[[*Ts], Awaitable[T]], *told: *Ts) -> T:
    """Return what `attempt` returns, making it again whenever its state was outdated."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return await attempt(*told)
        except ConflictError:
            continue
    return await attempt(*told)
