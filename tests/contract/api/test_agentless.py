"""Over every protocol, a pool that cannot reach the server is rejected and changes nothing."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from tests.support.local_api import H100, LocalApi, build_local_api, call_app, serve_local_api

from navarch.app.bringup import missing_agent
from navarch.client.connect import connect_fleet
from navarch.config import parse_config
from navarch.core.errors import InvalidError
from navarch.core.ids import PoolName
from navarch.ports.api import Capacity, FleetApi, PoolSpec

TOKEN = "a token"
TRAINING = PoolName("training")
SPEC = PoolSpec(name=TRAINING, offerings=(H100,), nodes_min=0, nodes_max=3)
SCRIPT = "#!/bin/sh\nstart-the-agent\n"
WORDS = "pool training: machines of sim cannot reach the server: no address is set for them"
FILE = """
providers: {sim: {type: aws, region: us-east-1}, other: {type: fake}}
pools:
  NAME: {provider: sim, instance_type: h100-8x, max_nodes: 3,
    control_plane_address: "https://navarch.example.com"}
"""


UBUNTU = "cpython-312-x86_64-linux-gnu"


def some_doors(pool_in_the_file: str = "another") -> LocalApi:
    config = parse_config(FILE.replace("NAME", pool_in_the_file))
    return build_local_api(token=TOKEN, missing_agent=partial(missing_agent, config, abis=[UBUNTU]))


async def story(fleet: FleetApi, local: LocalApi) -> None:
    before = local.store.fleet()
    wish = Capacity(name=TRAINING, gpus=8, gpu_type="h100")
    for request in (fleet.put_pool(SPEC, reason=""), fleet.up(wish)):
        with pytest.raises(InvalidError, match=WORDS) as refusal:
            await request
        assert "set server.external_address" in str(refusal.value)
    assert local.store.fleet() is before
    assert list(await fleet.list_pools()) == []

    with_script = replace(SPEC, user_data=SCRIPT)
    assert (await fleet.put_pool(with_script, reason="")).spec == with_script
    assert (await fleet.up(wish)).spec.user_data == SCRIPT
    stored = local.store.fleet()
    with pytest.raises(InvalidError, match=WORDS):
        await fleet.put_pool(SPEC, reason="the script is lost")
    assert local.store.fleet() is stored


@pytest.mark.parametrize("protocol", ["in-process", "http", "grpc"])
def test_a_cloud_pool_is_rejected_unless_its_machines_reach_the_server(protocol: str) -> None:
    async def run() -> None:
        local = some_doors()
        if protocol == "in-process":
            await story(local.fleet, local)
            return
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            client = connect_fleet(local.http_url or local.grpc_url, TOKEN, 10.0)
            try:
                await story(client, local)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_pool_with_an_address_of_its_own_is_accepted() -> None:
    async def run() -> None:
        local = some_doors(pool_in_the_file="training")
        assert (await local.fleet.put_pool(SPEC, reason="")).spec == SPEC
        grown = await local.fleet.up(Capacity(name=TRAINING, gpus=16, gpu_type="h100"))
        assert grown.size == 2

    asyncio.run(run())


def test_over_http_the_refusal_is_a_bad_request() -> None:
    async def run() -> None:
        local = some_doors()
        body = b"""{"name": "training", "nodes_min": 0, "nodes_max": 1,
            "offerings": [{"provider": "sim", "instance_type": "h100-8x"}]}"""
        headers = {"authorization": f"Bearer {TOKEN}", "content_type": "application/json"}
        answer = await call_app(local.app, "PUT", "/v1/pools/training", body, **headers)
        assert answer.status == 400
        assert WORDS in answer.body.decode()
        assert not local.store.fleet().pools

    asyncio.run(run())


def test_a_stored_pool_without_an_agent_can_still_be_made_smaller_and_deleted() -> None:
    async def run() -> None:
        open_to_all = build_local_api()
        await open_to_all.fleet.put_pool(replace(SPEC, nodes_wanted=2), reason="an older version")
        config = parse_config(FILE.replace("NAME", "another"))
        local = build_local_api(
            store=open_to_all.store, missing_agent=partial(missing_agent, config, abis=[UBUNTU])
        )
        assert (await local.fleet.scale(TRAINING, 0, reason="")).size == 0
        await local.fleet.delete_pool(TRAINING, reason="")
        assert list(await local.fleet.list_pools()) == []

    asyncio.run(run())
