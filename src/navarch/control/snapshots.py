"""The snapshot reconciler: keeps a copy of what is not durable, for the next start."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from navarch.ports.clock import Clock

SNAPSHOT_EVERY = timedelta(seconds=10)
"""How much of the nodes' readings a crash may cost. Everything that decides is durable at once."""


class SnapshotReconciler:
    """Saves the readings of all nodes every few seconds."""

    name = "snapshots"

    def __init__(self, clock: Clock, save: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._save = save
        self._due = clock.now() + SNAPSHOT_EVERY

    async def reconcile(self) -> datetime | None:
        """Save, if it is time to."""
        if self._clock.now() >= self._due:
            await self._save()
            self._due = self._clock.now() + SNAPSHOT_EVERY
        return self._due

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        return self._due
