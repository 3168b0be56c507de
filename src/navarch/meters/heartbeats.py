"""How busy pools are, from what their agents say with every heartbeat."""

from collections.abc import Sequence
from typing import Protocol

from navarch.core.errors import MetricsError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.autoscaler import PoolMetrics
from navarch.ports.store import Store


class Readings(Protocol):
    """What was last heard of the nodes."""

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never said."""
        ...


class HeartbeatMeter:
    """Averages GPU utilisation over the nodes of a pool that take work.

    The readings of one pool are one value at one time, whatever the order of its nodes.
    """

    def __init__(self, store: Store, readings: Readings) -> None:
        self._store = store
        self._readings = readings

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the average over every GPU; nodes of one pool have equally many."""
        members = self._store.fleet().in_pool(pool).values()
        serving = [node.id for node in members if node.serving]
        said = [used for used in self._readings.utilization(serving) if used is not None]
        if serving and not said:
            raise MetricsError(f"none of {len(serving)} nodes has said how busy it is")
        return PoolMetrics(utilization=sum(said) / len(said) if said else 0.0)
