"""How much CPU time one look at every pool takes, and how pools follow their load.

usage: python -m bench.pools_autoscale [--pools 100] [--nodes 10000] [--repeat 7]
"""

import argparse
import asyncio
import json
import statistics
import time
from datetime import timedelta

from navarch.control.pools.autoscaling import AutoscalingController
from navarch.control.pools.loads import Loads
from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
)
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.ownership import Cluster
from navarch.meters.pools import HeartbeatMeter
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_node, a_pool

EVERYTHING = Autoscaling(
    composite=CompositeSettings(
        members=(
            Autoscaling(predictive=PredictiveSettings()),
            Autoscaling(reactive=ReactiveSettings()),
            Autoscaling(queue=QueueSettings()),
        )
    )
)
LOOK = timedelta(seconds=30)


def a_fleet(pools: int, each: int) -> Change:
    names = [f"pool-{i:03}" for i in range(pools)]
    return Change(
        pools=[
            a_pool(name, size=1, nodes_max=each + 30, nodes_wanted=each, autoscaling=EVERYTHING)
            for name in names
        ],
        nodes=[a_node(f"{name}-{i}", name) for name in names for i in range(each)],
    )


async def looks(pools: int, nodes: int, repeat: int) -> dict[str, object]:
    """Time rounds over a fleet in which every pool has a week of history and a decision to make."""
    clock = SimClock()
    store = MemoryStore(Cluster(id="bench", secret=b"bench"))
    await store.commit(a_fleet(pools, nodes // pools), based_on=0)
    columns = TelemetryTable(clock, timeout=timedelta(hours=1))
    for number, node in enumerate(store.fleet().nodes):
        gpu = GpuMetrics(utilization_pct=float(number % 100))
        columns.record_heartbeat(NodeId(node), NodeMetrics(gpus=(gpu,) * 8))
    loads = Loads()
    for pool in store.fleet().pools:
        for quarter in reversed(range(8 * 96)):
            at = clock.now() - quarter * timedelta(minutes=15)
            loads.note(pool, at, utilization=quarter % 100, nodes=nodes // pools)
    reconciler = AutoscalingController(
        clock,
        store,
        {},
        HeartbeatMeter(store, columns),
        readings=columns,
        interval=LOOK,
        loads=loads,
    )
    taken = []
    for _ in range(repeat):
        began = time.process_time()
        await reconciler.reconcile(reconciler.queue.take(clock.now()))
        taken.append((time.process_time() - began) * 1000)
        await clock.sleep(LOOK.total_seconds())
    began = time.process_time()
    dumped = loads.dump()
    return {
        "pools": pools,
        "nodes": nodes,
        "look_ms_median": round(statistics.median(taken), 2),
        "look_ms_max": round(max(taken), 2),
        "history_bytes": len(dumped),
        "history_dump_ms": round((time.process_time() - began) * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=15)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        print(json.dumps(runner.run(looks(asked.pools, asked.nodes, asked.repeat)), indent=2))


if __name__ == "__main__":
    main()
