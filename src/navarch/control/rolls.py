"""The rolls of all pools, kept up to date with the store."""

from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.fleet.roll import Roll
from navarch.ports.store import Committed, Store


class Rolls:
    """Follows every commit, so that planners need not walk whole pools."""

    def __init__(self, store: Store) -> None:
        self._rolls: dict[PoolName, Roll] = {}
        for node in store.fleet().nodes.values():
            self._note(node)
        store.subscribe(self._changed)

    def of(self, pool: PoolName) -> Roll:
        """Return the roll of `pool` as of the newest commit."""
        return self._rolls.get(pool) or Roll()

    def _note(self, node: Node) -> None:
        if node.pool is None:
            return
        roll = self._rolls.get(node.pool)
        if roll is None:
            roll = self._rolls[node.pool] = Roll()
        roll.note(node)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            self._note(node)
        for name in committed.change.forget_nodes:
            known = committed.before.nodes.get(name)
            if known is not None and known.pool in self._rolls:
                self._rolls[known.pool].drop(name)
