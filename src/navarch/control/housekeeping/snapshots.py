"""Snapshots: keeps a copy of what is not durable, for the next start."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.control.runtime.work_queue import WorkQueue
from navarch.ports.clock import Clock
from navarch.ports.store import Committed

SNAPSHOT_EVERY = timedelta(seconds=10)
"""How much of the nodes' readings a crash may cost. Everything that decides is durable at once."""

READINGS = "readings"


class SnapshotController:
    """Saves the readings of all nodes every few seconds."""

    name = "snapshots"

    def __init__(self, clock: Clock, save: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._save = save
        self.queue: WorkQueue[str] = WorkQueue()
        self.queue.add_at(READINGS, clock.now() + SNAPSHOT_EVERY)

    def on_commit(self, committed: Committed) -> None:
        """Do nothing: readings are not committed."""

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Save the readings."""
        await self._save()
        self.queue.add_at(READINGS, self._clock.now() + SNAPSHOT_EVERY)
