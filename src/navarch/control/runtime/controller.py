"""What the runtime runs."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


class Controller:
    """Compares what is with what should be for some keys, and narrows the gap once.

    A key names a node, a pool, an incident or another record; a controller that always looks at
    everything has one key. A round must do the right thing after a restart, when every key is in
    the queue and nothing else is remembered.
    """

    name: str
    """The name used in logs and metrics."""
    queue: WorkQueue[Any]
    """The keys to reconcile. Adding a key is the only way to wake the controller."""

    def __init__(self, clock: Clock, store: Store, keys: Iterable[str] = ()) -> None:
        """`keys` are reconciled in the first round."""
        self._clock = clock
        self._store = store
        self.queue = WorkQueue(keys)

    def on_commit(self, committed: Committed) -> None:
        """Queue the keys that a commit concerns: none, unless a controller overrides this."""

    @abstractmethod
    async def reconcile(self, keys: Sequence[Any]) -> None:
        """Make one attempt for `keys`, and queue those that need another at a later time.

        If it raises, the runtime queues the keys again and backs off.
        """


P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS_MAX = 20


def retried(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return `method`, repeated as long as it raises ConflictError."""

    @wraps(method)
    async def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return await method(*args, **kwargs)
            except ConflictError:
                continue
        return await method(*args, **kwargs)

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


CommitHook = Callable[[Change, Fleet], Awaitable[Change]]
"""Returns a change of a fleet with what follows from it. It is called again for each attempt."""


async def no_hook(change: Change, fleet: Fleet) -> Change:
    """Return `change`: nothing follows from it."""
    del fleet
    return change
