"""The load of pools, from the readings in heartbeats."""

from collections.abc import Sequence
from typing import Protocol

from navarch.core.errors import MetricsError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.autoscaler import PoolMetrics
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
        members = self._store.fleet().in_pool(pool).values()
        serving = [node.id for node in members if node.serving]
        known = [used for used in self._readings.utilization(serving) if used is not None]
        if serving and not known:
            raise MetricsError(f"none of {len(serving)} nodes has reported its utilization")
        return PoolMetrics(utilization=sum(known) / len(known) if known else 0.0)
