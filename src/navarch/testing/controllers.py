"""Driving a single controller by hand, without a runtime."""

from datetime import datetime
from typing import Generic, TypeVar

from navarch.control.runtime.controller import Controller
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.state.index import Index

C = TypeVar("C", bound=Controller)


def indexed(store: Store) -> Index:
    """Return an index that follows the commits of `store`."""
    index = Index(store.fleet())
    store.subscribe(index.advance)
    return index


class ControllerDriver(Generic[C]):
    """Runs the rounds of one controller, one per call."""

    def __init__(self, clock: Clock, store: Store, controller: C) -> None:
        self.controller = controller
        self._clock = clock
        store.subscribe(controller.on_commit)

    async def reconcile(self) -> datetime | None:
        """Reconcile the keys that are due; return when the next one is."""
        queue = self.controller.queue
        keys = queue.take(self._clock.now())
        if keys:
            try:
                await self.controller.reconcile(keys)
            except BaseException:
                queue.retry()
                raise
            queue.done()
        return self.due_at()

    def due_at(self) -> datetime | None:
        """Return when the next round is due: now if a key is ready, None if there is none."""
        due = self.controller.queue.next_due()
        return None if due is None else max(due, self._clock.now())
