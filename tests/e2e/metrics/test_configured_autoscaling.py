"""A pool with configured autoscaling, on a real server."""

import asyncio
from pathlib import Path

from navarch import ControlPlane
from navarch.app.server import Running
from navarch.app.telemetry import LOADS
from navarch.config import parse_config
from navarch.core.autoscaling import QueueSettings
from navarch.core.ids import PoolName
from navarch.ports.api import FleetApi
from navarch.ports.autoscaler import PoolMetrics

TRAINING = PoolName("training")

CONFIG = """
server:
  address: 127.0.0.1:0
  grpc_address: 127.0.0.1:0
  heartbeat_interval: 200ms
  autoscale_interval: 200ms
providers:
  fake: {type: fake, boot_min: 50ms, boot_max: 100ms, bad_boot_share: 0}
pools:
  training:
    provider: fake
    instance_type: h100-8x
    min_nodes: 0
    max_nodes: 4
    cooldown: 0s
    scale_down_after: 100ms
    autoscaling: {type: queue, jobs_per_node: 2}
"""


class Jobs:
    def __init__(self) -> None:
        self.depth = 0

    async def pool_metrics(self, _pool: PoolName) -> PoolMetrics:
        return PoolMetrics(queue_depth=self.depth)


async def ready(fleet: FleetApi, nodes: int) -> None:
    async with asyncio.timeout(60):
        while True:
            pool = await fleet.get_pool(TRAINING)
            if (pool.size, pool.serving) == (nodes, nodes):
                return
            await asyncio.sleep(0.05)


def test_a_configured_pool_follows_its_queue_from_zero_and_back(tmp_path: Path) -> None:
    jobs = Jobs()

    async def main() -> None:
        running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        plane = ControlPlane(data_dir=tmp_path, config=parse_config(CONFIG), metrics_sources=[jobs])
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run(running.set_result))
            fleet = (await running).plane.fleet
            await ready(fleet, 0)
            jobs.depth = 5
            await ready(fleet, 3)
            jobs.depth = 0
            await ready(fleet, 0)
            spec = (await fleet.get_pool(TRAINING)).spec
            assert spec.autoscaling is not None
            assert spec.autoscaling.queue == QueueSettings(jobs_per_node=2)
            reasons = [e.event.reason for e in await fleet.events(limit=1000)]
            assert "0 to 3 nodes: queue: queue depth 5 requires 3 nodes (2 jobs/node)" in reasons
            life.cancel()
        assert (tmp_path / LOADS).read_bytes().startswith(b'{"training":')

    asyncio.run(main())
