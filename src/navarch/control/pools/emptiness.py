"""Emptiness: shrinks pools by the nodes that are not in use."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from navarch.control.pools.loads import Readings, Usage
from navarch.control.pools.sizing import commit_size
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import about
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.fleet.disruption.empty import empty
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

LOOK_EVERY = timedelta(minutes=1)


class EmptinessController(Controller):
    """Watches the pools that have no autoscaler.

    A node goes only if it was found empty at two looks in a row. What was observed is lost with the
    process; the window then begins again.
    """

    name = "emptiness"
    queue: WorkQueue[PoolName]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        readings: Readings,
        *,
        is_scaled: Callable[[Pool], bool],
    ) -> None:
        pools = store.fleet().pools.values()
        super().__init__(clock, store, [pool.name for pool in pools if _is_watched(pool)])
        self._usage = Usage(readings)
        self._is_scaled = is_scaled
        self._found: dict[PoolName, frozenset[NodeId]] = {}
        """The nodes that were empty at the last look."""

    def on_commit(self, committed: Committed) -> None:
        """Queue the pools that are watched from now on."""
        for pool in committed.reshaped:
            if _is_watched(pool) and pool.name not in self.queue:
                self.queue.add(pool.name)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Look at these pools, and queue them for the next look."""
        now, fleet = self._clock.now(), self._store.fleet()
        pools = [pool for name in keys if (pool := fleet.pools.get(name)) and _is_watched(pool)]
        self._usage.forget_all_but(fleet.nodes)
        for pool in pools:
            self.queue.add_at(pool.name, now + LOOK_EVERY)
        for pool in pools:
            if self._is_scaled(pool):
                self._found.pop(pool.name, None)
            else:
                await self._look(fleet, pool, now)

    async def _look(self, fleet: Fleet, pool: Pool, now: datetime) -> None:
        window = pool.disruption.empty_after
        assert window is not None, pool.name
        members = list(fleet.in_pool(pool.name).values())
        at_work = [node.id for node in members if node.counts and node.phase is Phase.READY]
        self._usage.note(at_work, now, keep=window)
        found = empty(pool, members, self._usage.peaks(at_work, now - window), now=now)
        before = self._found.get(pool.name, frozenset())
        self._found[pool.name] = frozenset(found)
        if found and before.issuperset(found):
            size = pool.size - len(found)
            reason = f"empty for {window}"
            await commit_size(
                self._store,
                fleet,
                pool,
                size,
                leaving=found,
                reason=reason,
                news=f"{pool.size} to {size} nodes: {', '.join(found)}: {reason}",
                because=tuple(about("node", name) for name in found),
                now=now,
            )


def _is_watched(pool: Pool) -> bool:
    return pool.disruption.empty_after is not None and not pool.deleted
