"""Snapshots: keeps a copy of what is not durable, for the next start."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.control.runtime.controller import Controller
from navarch.ports.clock import Clock
from navarch.ports.store import Store

SNAPSHOT_EVERY = timedelta(seconds=10)
"""How much of the nodes' readings a crash may cost. Everything that decides is durable at once."""

READINGS = "readings"


class SnapshotController(Controller):
    """Saves the readings of all nodes every few seconds."""

    name = "snapshots"

    def __init__(self, clock: Clock, store: Store, save: Callable[[], Awaitable[None]]) -> None:
        super().__init__(clock, store)
        self._save = save
        self.queue.add_at(READINGS, clock.now() + SNAPSHOT_EVERY)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Save the readings."""
        await self._save()
        self.queue.add_at(READINGS, self._clock.now() + SNAPSHOT_EVERY)
