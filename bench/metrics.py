"""CPU time of a scrape of /metrics, and its longest slice: `python -m bench.metrics`, as JSON.

The application is called in this process, so the time includes the rendering and the calls that
send each part, but no socket. A slice is what runs between two turns of the event loop: a heartbeat
waits no longer than that for one scrape.
"""

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import MutableMapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import Any

from navarch.api.fleet_metrics import fleet_exposition
from navarch.api.http.scrape import Scrapes
from navarch.api.metrics import PrometheusMetrics, server_metrics, settle_collector
from navarch.clock import SystemClock
from navarch.control.runtime.commit_metrics import CommitMetrics
from navarch.core.budget import month_start
from navarch.core.fleet import Fleet
from navarch.core.health import Condition, Health
from navarch.core.ids import IncidentId, NodeId, PoolName
from navarch.core.incident import Incident, IncidentKind
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.records import Table, evolve
from navarch.fleet.money.books import Books
from navarch.ports.api import CostBy
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

SCRAPE_S_MAX = 1.0
SLICE_MS_MAX = 20.0
POOLS = 100
ENDED = 200_000


def build(nodes: int, gpus: int, *, per_gpu: bool) -> Scrapes:
    clock = SystemClock()
    names = [NodeId(f"node-{i:06}") for i in range(nodes)]
    table = TelemetryTable(clock, timeout=timedelta(hours=1))
    for i, name in enumerate(names):
        load = [
            GpuMetrics(
                temperature_c=40 + (i + gpu) % 50 + 0.3,
                power_w=300 + (i * 7 + gpu) % 400 + 0.7,
                utilization_pct=(i + 11 * gpu) % 101,
                memory_used_bytes=float((i + gpu) % 80 * 2**30),
            )
            for gpu in range(gpus)
        ]
        table.record_heartbeat(name, NodeMetrics(gpus=tuple(load)))
    fleet = a_fleet(names, gpus)
    metrics = PrometheusMetrics()
    CommitMetrics(metrics, fleet)
    books = a_ledger()
    return Scrapes(
        clock,
        lambda: fleet_exposition(
            fleet,
            now=clock.now(),
            others=chain(server_metrics(fleet, 0), metrics.collect()),
            telemetry=table,
            per_gpu=per_gpu,
            spent={
                PoolName(pool): account.spent
                for pool, account in books.ended(
                    CostBy.POOL, since=month_start(clock.now()), until=clock.now()
                ).items()
            },
        ),
        within_s=600,
    )


def a_fleet(names: Sequence[NodeId], gpus: int) -> Fleet:
    """Return a fleet of pools, in which one node in twenty has a fault, with incidents and jobs."""
    faults = [
        Condition(check=f"xid/{code}/GPU-0", health=Health.DEGRADED, reason="", since=NOW)
        for code in (31, 48, 79)
    ]
    nodes = [
        a_node(
            name,
            f"pool-{i % POOLS}",
            gpus=gpus,
            health=Health.DEGRADED if i % 20 == 0 else Health.HEALTHY,
            conditions=tuple(faults) if i % 20 == 0 else (),
        )
        for i, name in enumerate(names)
    ]
    incidents = [
        Incident(
            id=IncidentId(f"incident-{i}"),
            kind=IncidentKind.HARDWARE,
            node=node.id,
            opened_at=NOW,
            last_at=NOW,
            title="a fault",
            check="xid",
        )
        for i, node in enumerate(nodes[::20])
    ]
    jobs = [a_job(f"job-{i}", queue=f"queue-{i % 20}") for i in range(1000)]
    return Fleet(
        nodes=Table({node.id: node for node in nodes}),
        pools=Table({pool.name: pool for pool in (a_pool(f"pool-{i}") for i in range(POOLS))}),
        incidents=Table({each.id: each for each in incidents}),
        jobs=Table({job.name: job for job in jobs}),
    )


def a_ledger() -> Books:
    """Return the books of 200,000 machines that are gone, half of them ended this month."""
    books, now = Books(), SystemClock().now()
    for i in range(ENDED):
        launch = a_node(f"gone-{i}", f"pool-{i % POOLS}").launch
        assert launch is not None
        ended = month_start(now) + timedelta(hours=1 if i % 2 else -1)
        books.note(evolve(launch, launched_at=ended - timedelta(hours=2), ended_at=ended))
    return books


async def measure(scrapes: Scrapes) -> dict[str, float]:
    """Scrape once, and take the process time of every turn of the event loop."""
    bodies: list[bytes] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        bodies.append(message.get("body", b""))

    turns: list[float] = []
    task = asyncio.create_task(scrapes.send(send, head_only=False))
    began = last = time.process_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.process_time()
        turns.append(now - last)
        last = now
    return {
        "cpu_s": last - began,
        "longest_slice_ms": max(turns) * 1000,
        "slices": len(turns),
        "series": sum(body.count(b"\n") - body.count(b"# ") for body in bodies),
        "megabytes": sum(map(len, bodies)) / 1e6,
    }


def report(nodes: int, gpus: int, repeat: int, *, per_gpu: bool) -> dict[str, float]:
    scrapes = build(nodes, gpus, per_gpu=per_gpu)
    settle_collector()
    runs = [asyncio.run(measure(scrapes)) for _ in range(repeat)]
    gc.unfreeze()
    medians = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    return {**medians, "longest_slice_ms_max": round(max(r["longest_slice_ms"] for r in runs), 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    size = (options.nodes, options.gpus, options.repeat)
    whole = report(*size, per_gpu=True)
    result = {
        "nodes": options.nodes,
        "gpus_per_node": options.gpus,
        "per_gpu": whole,
        "without_gpus": report(*size, per_gpu=False),
        "targets": {
            "cpu_s": {"max": SCRAPE_S_MAX, "met": whole["cpu_s"] < SCRAPE_S_MAX},
            "longest_slice_ms": {
                "max": SLICE_MS_MAX,
                "met": whole["longest_slice_ms_max"] < SLICE_MS_MAX,
            },
        },
    }
    print(json.dumps(result, indent=2))
    return 0 if all(target["met"] for target in result["targets"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
