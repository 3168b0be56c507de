"""The load of pools, from heartbeats, from a queue of jobs, and from several sources."""

from collections.abc import Sequence
from typing import Protocol

from navarch.autoscale.strategies import Work, nodes_needed
from navarch.core.errors import MetricsError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.autoscaler import MetricsSource, PoolMetrics
from navarch.ports.store import Store


class Readings(Protocol):
    """The latest readings of the nodes."""

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None without a reading."""
        ...


class HeartbeatMeter:
    """Averages GPU utilization over the serving nodes of a pool.

    The result does not depend on the order of the nodes.
    """

    def __init__(self, store: Store, readings: Readings) -> None:
        self._store = store
        self._readings = readings

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the average over every GPU; nodes of one pool have equally many."""
        fleet = self._store.fleet()
        members = (*fleet.in_pool(pool).values(), *fleet.hosts_of(pool))
        serving = [node.id for node in members if node.serving]
        known = [used for used in self._readings.utilization(serving) if used is not None]
        if serving and not known:
            raise MetricsError(f"none of {len(serving)} nodes has reported its utilization")
        return PoolMetrics(utilization=sum(known) / len(known) if known else 0.0)


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


class CombinedMeter:
    """Takes each metric from the first source that has it; zero means that a source has none.

    If one source fails, the whole fails: unknown work must not look like no work.
    """

    def __init__(self, sources: Sequence[MetricsSource]) -> None:
        self._sources = sources

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the first value that is not zero, for each metric on its own."""
        known = [await source.pool_metrics(pool) for source in self._sources]
        return PoolMetrics(
            utilization=next((m.utilization for m in known if m.utilization), 0.0),
            pending_jobs=next((m.pending_jobs for m in known if m.pending_jobs), 0),
            queue_depth=next((m.queue_depth for m in known if m.queue_depth), 0),
            nodes_needed=max((m.nodes_needed for m in known), default=0),
        )
