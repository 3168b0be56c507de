"""Commits that are tried again after a conflict."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.ports.store import Store

P = ParamSpec("P")
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


def retried(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return `method`, repeated as long as it raises ConflictError."""

    @wraps(method)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        return await until_no_conflict(partial(method, *args, **kwargs))

    return repeated


@retried
async def update_with_retry(
    store: Store, name: NodeId, proposal: Callable[[Node], Change | None]
) -> None:
    """Commit the change that `proposal` returns for the newest state of a node, if any.

    Only another change of the same node is a conflict, so a few attempts suffice.
    """
    fleet = store.fleet()
    node = fleet.nodes.get(name)
    change = None if node is None else proposal(node)
    if change is not None and not change.empty:
        await store.commit(change, based_on=fleet.revision)
