"""The autoscaling reconciler: asks each pool's autoscaler how big the pool should be."""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.core.errors import ConflictError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Health
from navarch.core.ids import PoolName
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.ports.autoscaler import Autoscaler, MetricsSource, PoolState
from navarch.ports.clock import Clock
from navarch.ports.store import Store

HISTORY_MAX = 120
"""How many earlier looks an autoscaler is shown: an hour of them at the usual interval."""


class AutoscalingReconciler:
    """Turns recommendations into wanted sizes, within the pool's bounds."""

    name = "autoscaling"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        autoscalers: Mapping[PoolName, Autoscaler],
        source: MetricsSource,
        *,
        interval: timedelta,
    ) -> None:
        self._clock = clock
        self._store = store
        self._autoscalers = autoscalers
        self._source = source
        self._interval = interval
        self._due = clock.now()
        self._history: dict[PoolName, deque[float]] = {}

    async def reconcile(self) -> datetime | None:
        """Look at every pool that has an autoscaler, if it is time to."""
        if not self._autoscalers:
            return None
        now = self._clock.now()
        if now >= self._due:
            self._due = now + self._interval
            for name, autoscaler in self._autoscalers.items():
                await self._scale(name, autoscaler, now)
        return self._due

    async def _scale(self, name: PoolName, autoscaler: Autoscaler, now: datetime) -> None:
        history = self._history.setdefault(name, deque(maxlen=HISTORY_MAX))
        metrics = await self._source.pool_metrics(name)
        fleet = self._store.fleet()
        pool = fleet.pools.get(name)
        if pool is None or pool.deleted:
            return
        shown = replace(metrics, utilization_history=tuple(history))
        history.append(metrics.utilization)
        advice = autoscaler.recommend(replace(_state(fleet, pool, now), metrics=shown))
        nodes = min(max(advice.target_nodes, pool.nodes_min), pool.nodes_max)
        if nodes == pool.size:
            return
        event = Event(
            at=now,
            about=about("pool", name),
            kind="pool.scaled",
            reason=f"{pool.size} to {nodes} nodes: {autoscaler.name}: {advice.reason}",
            facts={"size": str(nodes)},
        )
        change = Change(pools=[replace(pool, nodes_wanted=nodes)], events=[event])
        try:
            await self._store.commit(change, based_on=fleet.revision)
        except ConflictError:
            # The pool was just changed; the next look sees how.
            return


def _state(fleet: Fleet, pool: Pool, now: datetime) -> PoolState:
    staying = [node for node in fleet.in_pool(pool.name).values() if node.counts]
    healthy = [
        node
        for node in staying
        if node.phase is Phase.READY and node.health is not Health.UNHEALTHY
    ]
    return PoolState(
        pool=pool.name,
        now=now,
        current_nodes=len(staying),
        healthy_nodes=len(healthy),
        min_nodes=pool.nodes_min,
        max_nodes=pool.nodes_max,
    )
