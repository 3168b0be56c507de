"""Emptiness: shrinks pools by the nodes that are not in use."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from navarch.control.pools.usage import Readings, Usage
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import ConflictError
from navarch.core.event import Event, about
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.empty import empty
from navarch.fleet.disruption.surplus import scaled_down
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

LOOK_EVERY = timedelta(minutes=1)


class EmptinessController:
    """Watches the pools that have no autoscaler.

    A node goes only if it was found empty at two looks in a row. What was observed is lost with the
    process; the window then begins again.
    """

    name = "emptiness"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        readings: Readings,
        *,
        is_scaled: Callable[[Pool], bool],
    ) -> None:
        self._clock = clock
        self._store = store
        self._usage = Usage(readings)
        self._is_scaled = is_scaled
        self._found: dict[PoolName, frozenset[NodeId]] = {}
        """The nodes that were empty at the last look."""
        pools = store.fleet().pools.values()
        self.queue = WorkQueue([pool.name for pool in pools if _is_watched(pool)])

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
            await self._give_up(fleet, pool, found, now)

    async def _give_up(self, fleet: Fleet, pool: Pool, nodes: list[NodeId], now: datetime) -> None:
        size = pool.size - len(nodes)
        reason = f"empty for {pool.disruption.empty_after}"
        plan = Plan(
            pool=pool.name,
            actions=scaled_down(nodes, reason),
        )
        check_plans([plan], fleet)
        written = changes([plan], fleet, now=now)
        event = Event(
            at=now,
            about=about("pool", pool.name),
            kind="pool.scaled",
            reason=f"{pool.size} to {size} nodes: {', '.join(nodes)}: {reason}",
            because=tuple(about("node", name) for name in nodes),
            facts={"size": str(size)},
        )
        change = evolve(
            written,
            pools=[evolve(pool, nodes_wanted=size, scaled_at=now)],
            events=[event, *written.events],
            guards=[pool.name],
        )
        try:
            await self._store.commit(change, based_on=fleet.revision)
        except ConflictError:
            # The pool has just changed; the next look sees how.
            return


def _is_watched(pool: Pool) -> bool:
    return pool.disruption.empty_after is not None and not pool.deleted
