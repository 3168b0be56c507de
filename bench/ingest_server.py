"""A control plane to be measured from outside: `python -m bench.ingest_server`.

Prints `ready HTTP-PORT GRPC-PORT`; on SIGTERM prints what it received as JSON, and ends.
"""

import argparse
import asyncio
import json
import resource
import signal
from datetime import timedelta
from functools import partial

import uvloop

from bench.ingest_load import GPUS
from navarch.api.auth import BearerToken, Chain, JoinTokens, StoredTokens
from navarch.api.calls import ApiMetrics
from navarch.api.grpc.server import GrpcServer
from navarch.api.guard import GuardedAgents
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.app import build_http_app
from navarch.api.http.server import HttpServer, listen
from navarch.api.metrics import PrometheusMetrics, settle_collector
from navarch.app.services import host_pool
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.service.agents import AgentService, Timing
from navarch.service.fleet import FleetService
from navarch.service.joining import JoinService
from navarch.service.tokens import TokenService
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import indexed

INTERVAL = timedelta(seconds=10)


def inventory(name: str) -> Inventory:
    """Return the hardware that the nodes of the Go system register with."""
    return Inventory(gpus=tuple(Gpu(index=i, uuid=f"GPU-{name}-{i}") for i in range(GPUS)))


async def serve(nodes: int, token: str) -> None:
    clock, entropy = SystemClock(), SystemEntropy()
    store = MemoryStore(Cluster(id="bench", secret=bytes(32)))
    now = clock.now()
    known = [
        Node(
            id=NodeId(f"node-{i:06d}"),
            pool=None,
            phase=Phase.READY,
            since=now,
            created_at=now,
            registered_at=now,
        )
        for i in range(nodes)
    ]
    hardware = {node.id: inventory(node.id) for node in known}
    await store.commit(Change(nodes=known, inventories=hardware), based_on=0)
    columns = TelemetryTable(clock, timeout=3 * INTERVAL)
    for node in known:
        columns.record_heartbeat(node.id)
    timing = Timing(heartbeat_interval=INTERVAL, health_check_interval=6 * INTERVAL)
    service = AgentService(clock, store, indexed(store), columns, timing=lambda: timing)
    joins = JoinService(clock, store)
    agents = GuardedAgents(service, joins, pool_of=partial(host_pool, store, service.resolve))
    fleet = FleetService(clock, entropy, store, columns)
    metrics = PrometheusMetrics()
    desk, calls = HeartbeatDesk(agents, columns, metrics), ApiMetrics(clock, metrics)
    links = (JoinTokens(joins), StoredTokens(TokenService(clock, entropy, store)))
    auth = Chain([*links, BearerToken(token)])
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(desk.run(clock))]
        listener = listen("127.0.0.1", 0)
        app = build_http_app(
            clock,
            entropy,
            fleet,
            agents,
            auth=auth,
            desk=desk,
            metrics=lambda: iter(()),
            calls=calls,
        )
        server = HttpServer(clock, app, listener=listener, heartbeat_interval=INTERVAL)
        running.append(tasks.create_task(server.run()))
        grpc_server = GrpcServer(
            fleet, agents, auth=auth, desk=desk, address="127.0.0.1:0", calls=calls
        )
        running.append(tasks.create_task(grpc_server.run()))
        settle_collector()
        print(f"ready {listener.getsockname()[1]} {grpc_server.port}", flush=True)
        await stopping.wait()
        for task in running:
            task.cancel()
    desk.flush()
    reported = sum(columns.metrics(node.id) is not None for node in known)
    print(json.dumps({"received": desk.received, "nodes": reported}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--token", required=True)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(serve(options.nodes, options.token))


if __name__ == "__main__":
    main()
