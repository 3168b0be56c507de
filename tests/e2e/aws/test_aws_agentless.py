"""Every machine that a server buys at AWS gets an agent, or it is not bought."""

import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from tests.support.ec2_server import Ec2Server

from navarch import ControlPlane
from navarch.app import agent_bundle
from navarch.app.server import Running
from navarch.client.connect import FleetClient, connect_fleet
from navarch.clock import SystemEntropy, ThreadOffload
from navarch.config import parse_config
from navarch.core.errors import InvalidError
from navarch.core.fleet import Change
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.pool import Pool
from navarch.ports.api import PoolSpec
from navarch.stores.sqlite import SqliteStore

CONFIG = """
server:
  address: "127.0.0.1:0"
  grpc_address: "127.0.0.1:0"
  agent_index: INDEX
  ADDRESS
providers:
  work: {{type: aws, region: us-east-1, regions: [us-east-1], endpoint: "{url}"}}
pools:
  described: {{provider: work, instance_type: h100-8x, region: us-east-1, max_nodes: 1,
    control_plane_address: "https://navarch.example.com:50051"}}
"""
REACHABLE = "external_address: https://navarch.example.com:50051"
P5 = Offering(
    provider=ProviderName("work"),
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
    gpu_type="h100",
)
SPEC = PoolSpec(name=PoolName("training"), offerings=(P5,), nodes_min=1, nodes_max=1)
AMI = "ami-0123456789abcdef0"
SCRIPT = "#!/bin/sh\nstart-the-agent\n"

FETCHES = "AGENT_URL=https://navarch.example.com:50051/agent/"

Story = Callable[[FleetClient, str], Awaitable[None]]


def serve(
    ec2: Ec2Server, folder: Path, story: Story, *, address: str = REACHABLE, index: str = "true"
) -> None:
    """Run `story` with a client of a running server and the server's address."""
    text = CONFIG.replace("ADDRESS", address).replace("INDEX", index).format(url=ec2.url)

    async def main() -> None:
        running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        plane = ControlPlane(data_dir=folder, config=parse_config(text))
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run(running.set_result))
            url = f"http://{(await running).http.reachable()}"
            client = connect_fleet(url, timeout_s=10.0)
            async with asyncio.timeout(60):
                await story(client, url)
            await client.close()
            life.cancel()

    asyncio.run(main())


async def navarch(url: str, line: str) -> tuple[int, str]:
    """Run the command line against `url`; return its exit code and output."""
    ran = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "navarch.cli", "-s", url, *line.split()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await ran.communicate()
    assert ran.returncode is not None
    return ran.returncode, output.decode()


def client_of(ec2: Ec2Server) -> Any:  # noqa: ANN401 - botocore makes it while it runs
    return botocore.session.get_session().create_client(
        "ec2", region_name="us-east-1", endpoint_url=ec2.url
    )


async def user_data(ec2: Ec2Server) -> str:
    """Wait for the one machine; return its user data."""
    while not ec2.alive():  # noqa: ASYNC110 - another process fills it
        await asyncio.sleep(0.05)
    (machine,) = ec2.alive()
    attribute = client_of(ec2).describe_instance_attribute(InstanceId=machine, Attribute="userData")
    return base64.b64decode(attribute["UserData"]["Value"]).decode()


def test_the_api_and_the_command_line_refuse_such_a_pool_and_buy_nothing(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    async def story(fleet: FleetClient, url: str) -> None:
        with pytest.raises(InvalidError, match="machines of work cannot reach the server"):
            await fleet.put_pool(SPEC, reason="")
        for line in (
            "up --gpus 8 --type h100 --name training",
            "pool create training --provider work --type p5.48xlarge --max 1 --nodes 1",
        ):
            code, output = await navarch(url, line)
            assert code == 2, output
            assert "pool training: machines of work cannot reach the server" in output
            assert "set server.external_address" in output
        assert [pool.spec.name for pool in await fleet.list_pools()] == ["described"]

    serve(ec2, tmp_path, story, address="")
    assert ec2.made() == 0


def test_a_machine_on_which_the_agent_would_not_start_is_not_bought(
    ec2: Ec2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_bundle, "RELEASED", tmp_path / "none")
    monkeypatch.setattr(agent_bundle, "get_config_var", lambda _: "cpython-399-riscv64-linux-gnu")

    async def story(fleet: FleetClient, url: str) -> None:
        with pytest.raises(InvalidError, match="no agent would start on machines of work"):
            await fleet.put_pool(SPEC, reason="")
        code, output = await navarch(url, "up --gpus 8 --type h100 --name training")
        assert code == 2, output
        assert "their image has Python 3.12" in output
        assert "set server.agent_index: true" in output
        grown = await fleet.scale(PoolName("described"), 1, reason="")
        assert grown.size == 1
        while "no agent would start" not in (await fleet.get_pool(grown.spec.name)).note:  # noqa: ASYNC110 - the loops run in real time
            await asyncio.sleep(0.05)
        assert ec2.made() == 0
        code, output = await navarch(url, f"up --gpus 8 --type h100 --name own --image {AMI}")
        assert code == 0, output
        assert FETCHES in await user_data(ec2)

    serve(ec2, tmp_path / "state", story, index="false")


def test_pools_of_the_command_line_get_the_agent_with_the_operators_parts(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("#cloud-config\nruncmd: [mount /data]\n")

    async def story(_fleet: FleetClient, url: str) -> None:
        setup = f"--user-data {own} --image {AMI} --setup-command nvidia-smi"
        code, output = await navarch(url, f"up --gpus 8 --type h100 --name training {setup}")
        assert code == 0, output
        text = await user_data(ec2)
        assert text.index("mount /data") < text.index("sh -euc nvidia-smi") < text.index(FETCHES)
        (machine,) = ec2.alive()
        (found,) = client_of(ec2).describe_instances(InstanceIds=[machine])["Reservations"]
        assert found["Instances"][0]["ImageId"] == AMI

    serve(ec2, tmp_path / "state", story)


def test_a_pool_with_user_data_is_accepted_and_its_machine_gets_it(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    async def story(fleet: FleetClient, _url: str) -> None:
        await fleet.put_pool(replace(SPEC, user_data=SCRIPT), reason="")
        assert await user_data(ec2) == SCRIPT

    serve(ec2, tmp_path, story)


def test_a_pool_with_cloud_init_is_accepted_and_its_machine_gets_the_agent(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    async def story(_fleet: FleetClient, url: str) -> None:
        code, output = await navarch(url, "up --gpus 8 --type h100 --name described")
        assert code == 0, output
        assert FETCHES in await user_data(ec2)

    serve(ec2, tmp_path, story)


def test_blank_user_data_does_not_replace_the_script_that_starts_the_agent(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    async def story(fleet: FleetClient, _url: str) -> None:
        blank = replace(SPEC, name=PoolName("described"), user_data=" \n")
        await fleet.put_pool(blank, reason="")
        assert FETCHES in await user_data(ec2)

    serve(ec2, tmp_path, story)


def test_a_pool_that_an_older_version_stored_is_loaded_and_buys_nothing(
    ec2: Ec2Server, tmp_path: Path
) -> None:
    asyncio.run(store_pool(tmp_path))

    async def story(fleet: FleetClient, _url: str) -> None:
        while "no machines are bought" not in (await fleet.get_pool(SPEC.name)).note:  # noqa: ASYNC110 - the loops run in real time
            await asyncio.sleep(0.05)
        note = (await fleet.get_pool(SPEC.name)).note
        assert "pool training: machines of work cannot reach the server" in note
        assert ec2.made() == 0
        await fleet.put_pool(replace(SPEC, user_data=SCRIPT), reason="")
        assert await user_data(ec2) == SCRIPT

    serve(ec2, tmp_path, story, address="")


async def store_pool(folder: Path) -> None:
    offload = ThreadOffload("an-older-version")
    store = SqliteStore.open(folder, offload, SystemEntropy())
    pool = Pool(name=SPEC.name, offerings=SPEC.offerings, nodes_min=1, nodes_max=1)
    await store.commit(Change(pools=[pool]), based_on=store.fleet().revision)
    store.close()
    offload.close()
