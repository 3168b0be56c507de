"""The emptiness reconciler: makes pools smaller whose nodes nobody uses."""

from collections.abc import Callable
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO
from navarch.control.usage import Readings, Usage
from navarch.core.errors import ConflictError
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Phase
from navarch.core.numbering import are_same_but_for_their_counts
from navarch.core.pool import Pool
from navarch.core.table import Table
from navarch.fleet.changes import changes
from navarch.fleet.disruption.empty import empty
from navarch.fleet.disruption.surplus import scaled_down
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

LOOK_EVERY = timedelta(minutes=1)


class EmptinessReconciler:
    """Looks at pools that no autoscaler looks after.

    A node goes only if it was found empty at two looks in a row. What was seen is lost with the
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
        self._due = clock.now()
        self._found: dict[PoolName, frozenset[NodeId]] = {}
        self._pools: Table[PoolName, Pool] | None = None
        """As they were at the last round."""
        self._watched = False
        """Whether any of them was to be watched then."""
        self._spared = False
        """Whether any was not because it has an autoscaler, which may be taken away any time."""
        self.on_sooner: Callable[[], None] = lambda: None
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Look at every pool that wants to be rid of empty nodes, if it is time to."""
        now = self._clock.now()
        fleet = self._store.fleet()
        wanting = [pool for pool in fleet.pools.values() if _wants_none_empty(pool)]
        watched = [pool for pool in wanting if not self._is_scaled(pool)]
        self._pools, self._watched = fleet.pools, bool(watched)
        self._spared = len(watched) < len(wanting)
        if not watched:
            self._found.clear()
            return None
        if now < self._due:
            return self._due
        self._due = now + LOOK_EVERY
        self._usage.forget_all_but(fleet.nodes)
        for pool in watched:
            await self._look(fleet, pool, now)
        return self._due

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        pools = self._store.fleet().pools
        if self._spared or self._pools is None:
            return LONG_AGO
        if pools is not self._pools:
            if not are_same_but_for_their_counts(self._pools, pools):
                return LONG_AGO
            self._pools = pools
        return self._due if self._watched else None

    def _changed(self, committed: Committed) -> None:
        if self._spared or committed.reshaped:
            self.on_sooner()

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
            # The pool was just changed; the next look sees how.
            return


def _wants_none_empty(pool: Pool) -> bool:
    return pool.disruption.empty_after is not None and not pool.deleted
