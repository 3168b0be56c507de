"""The rolls of all pools, kept up to date with the store."""

from navarch.core.ids import PoolName
from navarch.fleet.roll import Roll
from navarch.ports.store import Committed, Store


class Rolls:
    """Follows every commit, so that planners need not walk whole pools."""

    def __init__(self, store: Store) -> None:
        self._rolls: dict[PoolName, Roll] = {}
        for pool, nodes in store.fleet().by_pool.items():
            self._rolls[pool] = Roll(nodes.values())
        store.subscribe(self._changed)

    def of(self, pool: PoolName) -> Roll:
        """Return the roll of `pool` as of the newest commit."""
        return self._rolls.get(pool) or Roll()

    def _changed(self, committed: Committed) -> None:
        rolls = self._rolls
        for _, node in committed.moved:
            pool = node.pool
            if pool is None:
                continue
            if pool not in rolls:
                rolls[pool] = Roll()
            rolls[pool].note(node)
        for node in committed.forgotten:
            if node.pool in self._rolls:
                self._rolls[node.pool].drop(node.id)
