"""How long a reconcile round takes, and how soon a large fleet is served again.

usage: python -m bench.control [--nodes 10000] [--restart-nodes 100000] [--repeat 7]
"""

import argparse
import asyncio
import gc
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from navarch.app.control_plane import Plane
from navarch.control.runtime.operations import OperationRunner
from navarch.core.fleet import Change
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.providers.simulated import SimulatedCloud
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.effects import SimWorkloads
from navarch.stores.evidence import read_whole, write_whole
from navarch.stores.memory import MemoryStore
from navarch.stores.sqlite import SqliteStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool

POOLS = 100
READINGS = NodeMetrics(
    cpu_pct=12.0,
    memory_pct=40.0,
    gpus=(GpuMetrics(temperature_c=61.0, power_w=640.0, utilization_pct=97.0),) * 8,
)


def spread(samples: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(samples), 3),
        "min": round(min(samples), 3),
        "max": round(max(samples), 3),
        "runs": len(samples),
    }


def a_fleet(nodes: int) -> Change:
    each = nodes // POOLS
    pools = [
        a_pool(f"pool-{i:03}", size=each, nodes_max=each + 30, next_index=each)
        for i in range(POOLS)
    ]
    members = [
        a_node(f"{pool.name}-{i}", pool.name, health=Health.HEALTHY)
        for pool in pools
        for i in range(each)
    ]
    return Change(pools=pools, nodes=members)


def some_trouble(nodes: Iterable[Node]) -> Change:
    """Break one node of every pool, so that each has a replacement to plan and a node to drain."""
    fatal = Condition(check="xid", health=Health.UNHEALTHY, reason="79", since=NOW, fatal=True)
    first = {node.pool: node for node in nodes if node.serving}
    return Change(
        nodes=[
            evolve(node, health=Health.UNHEALTHY, conditions=(fatal,)) for node in first.values()
        ]
    )


async def rounds(nodes: int, repeat: int) -> dict[str, object]:
    """Time one activation of every reconciler: idle, and with work in each pool."""
    clock = SimClock()
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
    await store.commit(a_fleet(nodes), based_on=0)
    liveness = TelemetryTable(clock, timeout=timedelta(hours=100), nodes=list(store.fleet().nodes))
    plane = Plane(
        clock,
        SeededEntropy("bench"),
        store,
        providers=[SimulatedCloud(clock, SeededEntropy("cloud"), name="sim")],
        notifier=SimWorkloads(clock, SeededEntropy("w")),
        liveness=liveness,
        strict=True,
    )
    async with asyncio.TaskGroup() as tasks:
        operations = OperationRunner(clock, SeededEntropy("e"), tasks, strict=True)
        loops = [
            ControllerDriver(clock, store, each)
            for each in plane.controllers(operations)
            if not each.name.startswith("observation")
        ]
        await one_round(loops)
        busy = []
        for _ in range(repeat):
            fleet = store.fleet()
            await store.commit(some_trouble(fleet.nodes.values()), based_on=fleet.revision)
            before = store.fleet().revision
            # Two rounds: the first requests a replacement, the second drains the replaced node.
            busy.append(await one_round(loops) + await one_round(loops))
            assert store.fleet().revision > before, "there was no work"
            await one_round(loops)
        await settled(loops)
        idle = [await one_round(loops) for _ in range(repeat * 20)]
        for task in asyncio.all_tasks():
            if task.get_name().split("/")[0] in ("launch", "notice", "terminate", "drained"):
                task.cancel()
    return {
        "nodes": nodes,
        "pools": POOLS,
        "busy_round_ms": spread(busy),
        "idle_round_ms": spread(idle),
    }


async def settled(loops: list[ControllerDriver[Any]]) -> None:
    for _ in range(5):
        await one_round(loops)


async def one_round(loops: list[ControllerDriver[Any]]) -> float:
    start = time.perf_counter()
    for each in loops:
        await each.reconcile()
    return (time.perf_counter() - start) * 1000


def restart(nodes: int, repeat: int) -> dict[str, object]:
    """Time how long a control plane takes from nothing to serving, with the state on disk."""
    gpus = tuple(
        Gpu(
            index=i,
            uuid=f"GPU-{i:08}-0000-0000",
            name="NVIDIA H100 80GB HBM3",
            memory_bytes=80 << 30,
        )
        for i in range(8)
    )
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        asyncio.run(fill(directory, nodes, gpus))
        seconds, per_node, rss = [], 0.0, 0
        for _ in range(repeat):
            gc.collect()
            start = time.perf_counter()
            columns, count = reopen(directory)
            seconds.append(time.perf_counter() - start)
            assert count == nodes, count
            per_node = columns.bytes_per_node()
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            del columns
    return {
        "nodes": nodes,
        "gpus_per_node": 8,
        "serving_again_s": spread(seconds),
        "liveness_and_metrics_bytes_per_node": round(per_node),
        "peak_rss_mib": rss,
    }


async def fill(directory: Path, nodes: int, gpus: tuple[Gpu, ...]) -> None:
    store = SqliteStore.open(directory, InlineOffload(), SeededEntropy("1"))
    change = a_fleet(nodes)
    inventories = {node.id: Inventory(gpus=gpus, hostname=node.id) for node in change.nodes}
    await store.commit(evolve(change, inventories=inventories), based_on=0)
    columns = TelemetryTable(StoppedClock(), timeout=timedelta(seconds=90))
    for node in store.fleet().nodes:
        columns.record_heartbeat(node, READINGS)
    write_whole(directory / "readings", columns.dump())
    store.close()


def reopen(directory: Path) -> tuple[TelemetryTable, int]:
    """Do what `navarch serve` does before it answers its first request."""
    store = SqliteStore.open(directory, InlineOffload(), SeededEntropy("1"))
    fleet = store.fleet()
    known = [node.id for node in fleet.nodes.values() if node.registered_at and not node.gone]
    columns = TelemetryTable(StoppedClock(), timeout=timedelta(seconds=90), nodes=known)
    assert columns.restore(read_whole(directory / "readings") or b"")
    clock = StoppedClock()
    plane = Plane(
        clock,
        SeededEntropy("bench"),
        store,
        providers=[],
        notifier=SimWorkloads(clock, SeededEntropy("w")),
        liveness=columns,
    )
    detail = asyncio.run(plane.fleet.get_node(NodeId(f"pool-{POOLS - 1:03}-0")))
    assert detail.metrics == READINGS
    assert detail.inventory is not None
    store.close()
    return columns, len(fleet.nodes)


class StoppedClock:
    """A clock that stands still."""

    def now(self) -> datetime:
        """Return the same moment as ever."""
        return NOW

    def monotonic(self) -> float:
        """Return the same moment as ever."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Wait, for real."""
        await asyncio.sleep(seconds)


def on_virtual_time(measure: Callable[[], Awaitable[dict[str, object]]]) -> dict[str, object]:
    async def main() -> dict[str, object]:
        return await measure()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--restart-nodes", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    result = {
        "rounds": on_virtual_time(lambda: rounds(given.nodes, given.repeat)),
        "restart": restart(given.restart_nodes, min(given.repeat, 5)),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
