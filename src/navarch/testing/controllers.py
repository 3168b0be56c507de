"""Driving a single controller by hand, without a runtime."""

from datetime import datetime

from navarch.control.runtime.controller import Controller
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.state.index import Index


def indexed(store: Store) -> Index:
    """Return an index that follows the commits of `store`."""
    index = Index(store.fleet())
    store.subscribe(index.advance)
    return index


class ControllerDriver:
    """Runs the rounds of one controller when a test asks for them."""

    def __init__(self, clock: Clock, store: Store, controller: Controller) -> None:
        self._clock = clock
        self._controller = controller
        store.subscribe(controller.on_commit)

    async def round(self) -> datetime | None:
        """Reconcile the keys that are due; return when the next one is."""
        queue = self._controller.queue
        keys = queue.take(self._clock.now())
        if keys:
            try:
                await self._controller.reconcile(keys)
            except BaseException:
                queue.retry()
                raise
            queue.done()
        return queue.next_due()
