"""How busy pools are, from what their agents say with every heartbeat."""

from typing import Protocol

from navarch.core.ids import NodeId, PoolName
from navarch.core.metrics import NodeMetrics
from navarch.ports.autoscaler import PoolMetrics
from navarch.ports.store import Store


class Readings(Protocol):
    """What was last heard of the nodes."""

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        """Return what `node` said last."""
        ...


class HeartbeatMeter:
    """Averages GPU utilisation over the nodes of a pool that take work."""

    def __init__(self, store: Store, readings: Readings) -> None:
        self._store = store
        self._readings = readings

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the average over every GPU."""
        loads: list[float] = []
        for node in self._store.fleet().in_pool(pool).values():
            said = self._readings.metrics(node.id) if node.serving else None
            if said is not None:
                loads += [gpu.utilization_pct for gpu in said.gpus]
        return PoolMetrics(utilization=sum(loads) / len(loads) if loads else 0.0)
