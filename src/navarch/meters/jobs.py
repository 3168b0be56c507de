"""The load of pools, from a queue of jobs."""

from collections.abc import Sequence
from typing import Protocol

from navarch.autoscale.demand import Work, nodes_needed
from navarch.core.ids import PoolName
from navarch.ports.autoscaler import PoolMetrics
from navarch.ports.store import Store


class Jobs(Protocol):
    """A queue of jobs and of unmet requests for machines."""

    async def work(self, pool: PoolName) -> Sequence[Work]:
        """Return the running and waiting work of `pool`; raise MetricsError if it is unknown."""
        ...


class JobsMeter:
    """Counts jobs and the nodes that they need together."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the waiting jobs, all jobs, and the nodes that they need."""
        work = await self._jobs.work(pool)
        known = self._store.fleet().pools.get(pool)
        gpus = known.offerings[0].gpus if known else 0
        return PoolMetrics(
            pending_jobs=sum(each.waiting for each in work),
            queue_depth=len(work),
            nodes_needed=nodes_needed(work, gpus) if gpus else 0,
        )
