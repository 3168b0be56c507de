"""The fleet's own jobs as a source of metrics."""

from collections.abc import Sequence

from navarch.autoscale.demand import Work
from navarch.core.ids import PoolName
from navarch.fleet.jobs.demand import work_of
from navarch.ports.store import Store


class JobQueue:
    """Says what runs on pools and what waits for them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def work(self, pool: PoolName) -> Sequence[Work]:
        """Return what runs on `pool` and what waits for it."""
        return work_of(self._store.fleet(), pool)
