"""What the runtime runs."""

from collections.abc import Sequence
from typing import Any, Protocol

from navarch.control.runtime.work_queue import WorkQueue
from navarch.ports.store import Committed


class Controller(Protocol):
    """Compares what is with what should be for some keys, and narrows the gap once.

    A key names a node, a pool, an incident or another record; a controller that always looks at
    everything has one key. A round must do the right thing after a restart, when every key is in
    the queue and nothing else is remembered.
    """

    @property
    def name(self) -> str:
        """The name used in logs and metrics."""
        ...

    @property
    def queue(self) -> WorkQueue[Any]:
        """The keys to reconcile. Adding a key is the only way to wake the controller."""
        ...

    def on_commit(self, committed: Committed) -> None:
        """Queue the keys that a commit concerns."""
        ...

    async def reconcile(self, keys: Sequence[Any]) -> None:
        """Make one attempt for `keys`, and queue those that need another at a later time.

        If it raises, the runtime queues the keys again and backs off.
        """
        ...
