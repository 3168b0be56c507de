"""The rolls of all pools, kept up to date with the store."""

from navarch.core.ids import PoolName
from navarch.fleet.pool_index import PoolIndex
from navarch.ports.store import Committed, Store


class PoolIndexes:
    """Follows every commit, so that planners need not walk whole pools."""

    def __init__(self, store: Store) -> None:
        self._rolls: dict[PoolName, PoolIndex] = {}
        for pool, nodes in store.fleet().by_pool.items():
            self._rolls[pool] = PoolIndex(nodes.values())
        store.subscribe(self._changed)

    def of(self, pool: PoolName) -> PoolIndex:
        """Return the roll of `pool` as of the newest commit."""
        return self._rolls.get(pool) or PoolIndex()

    def _changed(self, committed: Committed) -> None:
        rolls = self._rolls
        for _, node in committed.moved:
            pool = node.pool
            if pool is None:
                continue
            if pool not in rolls:
                rolls[pool] = PoolIndex()
            rolls[pool].note(node)
        for node in committed.forgotten:
            if node.pool in self._rolls:
                self._rolls[node.pool].drop(node.id)
