"""How soon a launch that a zone of EC2 refuses for want of machines is tried in the next."""

import asyncio
import os
from datetime import timedelta

from tests.support.ec2_server import ACCESS, Ec2Server, ec2_server

from bench.providers_listings import AT_AWS, CLUSTER, POOL, aws_account, spread
from navarch.app.control_plane import Plane
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.event import Event
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.notifiers.log import LogWorkloads
from navarch.service.views import pool_spec
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable


def tried_elsewhere(repeat: int) -> dict[str, object]:
    """Return the time until the next call elsewhere, and until its machine."""
    os.environ |= ACCESS
    asked, bought = [], []
    with ec2_server() as ec2:
        for _ in range(repeat):
            ec2.reset()
            ec2.set(stock={"us-east-1a/p5.48xlarge": 0})
            one, two = asyncio.run(_refused_once(ec2))
            asked.append(one)
            bought.append(two)
    return {"s_to_ask_elsewhere": spread(asked), "s_to_buy_elsewhere": spread(bought)}


async def _refused_once(ec2: Ec2Server) -> tuple[float, float]:
    """Return the time from a refusal to the call in the next zone, and its machine."""
    threads = ThreadOffload("bench", at_once=8)
    store = MemoryStore(CLUSTER)
    clock = SystemClock()
    plane = Plane(
        clock,
        SystemEntropy(),
        store,
        providers=[aws_account(ec2, threads)],
        notifier=LogWorkloads(),
        liveness=TelemetryTable(clock, timeout=timedelta(minutes=5)),
        strict=True,
    )
    zones = (AT_AWS, evolve(AT_AWS, zone="us-east-1b"))
    pool = Pool(name=POOL, offerings=zones, nodes_min=1, nodes_max=1)
    try:
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run())
            await plane.fleet.put_pool(pool_spec(pool), reason="begin")
            refused, asked, bought = await _watch(plane, store)
            life.cancel()
    finally:
        threads.close()
    return asked - refused, bought - refused


async def _watch(plane: Plane, store: MemoryStore) -> tuple[float, float, float]:
    while True:
        await asyncio.sleep(0.01)
        nodes = list(store.fleet().nodes.values())
        if not nodes or nodes[0].instance is None:
            continue
        events: list[Event] = [entry.event for entry in await store.events()]
        refused = next(event.at for event in events if event.kind == "launch.refused")
        launch = nodes[0].launch
        assert launch is not None
        assert launch.offering.zone == "us-east-1b", plane
        return refused.timestamp(), launch.asked_at.timestamp(), nodes[0].since.timestamp()
