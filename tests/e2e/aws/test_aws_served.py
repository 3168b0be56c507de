"""A server with an AWS account, from the configuration file to the machine."""

import asyncio
from pathlib import Path

from tests.support.ec2_server import Ec2Server

from navarch import ControlPlane
from navarch.app.server import Running
from navarch.config import parse_config
from navarch.ports.api import Offer

CONFIG = """
server: {{address: "127.0.0.1:0", grpc_address: "127.0.0.1:0", agent_index: true,
  external_address: "https://navarch.example.com"}}
providers:
  work:
    {{type: aws, region: us-east-1, regions: [us-east-1], endpoint: "{url}", machines_per_call: 1}}
pools:
  training:
    provider: work
    instance_type: h100-8x
    zones: [us-east-1a, us-east-1b]
    region: us-east-1
    min_nodes: 2
    max_nodes: 2
"""


def test_a_pool_at_aws_is_filled_from_the_next_zone_and_the_offers_show_why(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    ec2.set(stock={"us-east-1a/p5.48xlarge": 1})
    seen: dict[str, list[Offer]] = {}

    async def main() -> None:
        running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        plane = ControlPlane(data_dir=tmp_path, config=parse_config(CONFIG.format(url=ec2.url)))
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run(running.set_result))
            fleet = (await running).plane.fleet
            async with asyncio.timeout(60):
                while len(ec2.alive()) < 2:  # noqa: ASYNC110 - another process fills it
                    await asyncio.sleep(0.05)
                for written in ("h100", "h100-8x"):
                    seen[written] = list(await fleet.offers(gpu_type=written, gpus=8))
            life.cancel()

    asyncio.run(main())
    assert seen["h100"] == seen["h100-8x"]
    mine = {x.offering.zone: x for x in seen["h100"] if x.configured and not x.offering.spot}
    assert "InsufficientInstanceCapacity" in (mine["us-east-1a"].sold_out or "")
    assert mine["us-east-1b"].sold_out is None
    assert mine["us-east-1b"].gpu_memory_gib == 80
    assert {x.offering.provider for x in seen["h100"] if not x.configured} >= {"gcp", "lambda"}
