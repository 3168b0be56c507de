"""What the runtime runs."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from navarch.control.runtime.work_queue import WorkQueue
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
