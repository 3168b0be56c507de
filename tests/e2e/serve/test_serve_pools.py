"""Pools end to end: a configuration file, a server and the command line."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.fleet_process import CONFIG, FleetProcess

from navarch.clock import SystemEntropy
from navarch.core.fleet import Change
from navarch.core.ids import PoolName, ProviderName
from navarch.core.node import NodeStatus
from navarch.core.records import evolve
from navarch.ports.api import NodeView, Query
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.sqlite import SqliteStore
from navarch.testing.worlds import H100, a_pool

Start = Callable[[str], FleetProcess]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Start]:
    made: list[FleetProcess] = []

    def make(config: str) -> FleetProcess:
        server = FleetProcess(tmp_path, config=config)
        made.append(server)
        server.start()
        return server

    yield make
    for server in made:
        if server.process is not None and server.process.poll() is None:
            server.kill()


def nodes(server: FleetProcess, pool: str) -> list[NodeView]:
    page = server.ask(lambda api: api.list_nodes(Query(pool=PoolName(pool))))
    return [node for node in page.items if node.status is NodeStatus.ACTIVE]


GANGS = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake:
    type: fake
    boot_min: 100ms
    boot_max: 300ms
    bad_boot_share: 0
    blocks: {north/one: 2, north/two: 3, south/one: 4}
pools:
  training:
    provider: fake
    instance_type: h100-8x
    zones: [north, south]
    min_nodes: 4
    max_nodes: 8
    gang: 4
    gang_hold: 3s
"""


def test_a_gang_without_a_shared_block_is_returned_and_bought_whole_in_the_next_zone(
    serve: Start,
) -> None:
    server = serve(GANGS)

    server.until(lambda: len(nodes(server, "training")) == 4)

    assert {node.zone for node in nodes(server, "training")} == {"south"}
    given_up = server.navarch("why", "gang", "training-g0").stdout
    assert "of 4 machines in one block: not complete within 0:00:03" in given_up

    def shown() -> str:
        return server.navarch("get", nodes(server, "training")[0].id).stdout

    server.until(lambda: "Block:          south/one" in shown())
    assert "topology.navarch.dev/rack: south/one-rack-" in shown()


PLAIN = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 300ms, bad_boot_share: 0}
pools:
  other: {provider: fake, instance_type: h100-8x, min_nodes: 1, max_nodes: 2}
"""


def test_a_server_with_a_stored_pool_of_a_billion_nodes_recovers_after_a_scale_down(
    serve: Start, tmp_path: Path
) -> None:
    offerings = (evolve(H100, provider=ProviderName("fake")),)
    huge = a_pool("huge", size=0, nodes_max=2**53, nodes_wanted=10**9, offerings=offerings)

    async def left_by_an_older_version() -> None:
        (tmp_path / "state").mkdir()
        store = SqliteStore.open(tmp_path / "state", InlineOffload(), SystemEntropy())
        await store.commit(Change(pools=[huge]), based_on=store.fleet().revision)
        store.close()

    asyncio.run(left_by_an_older_version())
    server = serve(PLAIN)
    server.until(lambda: len(nodes(server, "other")) == 1)

    status = server.navarch("status")
    assert status.returncode == 0, status.stderr
    assert "huge is paused: 1000000000 nodes are above the limit of 100000" in status.stdout
    assert "navarch pool scale huge NODES" in server.navarch("pool", "get", "huge").stdout
    more = server.navarch("pool", "scale", "huge", "100001")
    assert more.returncode != 0
    assert "nodes: 100001 is above the limit of 100000 nodes per pool" in more.stderr
    server.stop()
    server.start()
    server.until(lambda: len(nodes(server, "other")) == 1)
    assert nodes(server, "huge") == []

    assert server.navarch("pool", "scale", "huge", "2").returncode == 0
    server.until(lambda: len(nodes(server, "huge")) == 2)


MARKET = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  east:
    type: fake
    boot_min: 100ms
    boot_max: 300ms
    bad_boot_share: 0
    prices: {h100-8x: 20}
    spot_prices: {h100-8x: 5}
    stock: {h100-8x: 1, h100-8x spot: 2}
    reservations: {paid-for: 1}
  west: {type: fake, boot_min: 100ms, boot_max: 300ms, bad_boot_share: 0}
pools:
  serving:
    providers:
      - {name: east, reservation: paid-for, reserved_nodes: 1, capacity_types: [spot, on-demand]}
      - {name: west, priority: 1}
    instance_type: h100-8x
    min_nodes: 5
    max_nodes: 6
    labels: {team: research}
"""


def test_reserved_machines_come_first_then_spot_then_on_demand_then_another_provider(
    serve: Start,
) -> None:
    server = serve(MARKET)

    server.until(lambda: len(nodes(server, "serving")) == 5)

    listed = nodes(server, "serving")
    assert Counter(node.provider for node in listed) == {"east": 4, "west": 1}
    last = next(node.id for node in listed if node.provider == "west")

    def why() -> str:
        return server.navarch("why", "node", last).stdout

    # Its agent can register before the provider answers, which precedes the table.
    server.until(lambda: "→ h100-8x at west" in why())
    table = why()
    assert "h100-8x at east, reserved paid-for, 20/h" in table
    assert "1 of 1 reserved machines are used" in table
    assert "h100-8x at east, spot, 5/h" in table
    assert "closed until" in table
    assert "CapacityError: h100-8x is sold out" in table
    spent = json.loads(server.navarch("cost", "--by", "team", "-o", "json").stdout)
    assert [(line["name"], line["running"]) for line in spent["lines"]] == [("research", 5)]


def test_up_resizes_a_pool_of_the_file_however_its_type_is_written(serve: Start) -> None:
    server = serve(CONFIG.replace("BAD", "0"))
    before = server.ask(lambda api: api.get_pool(PoolName("training"))).spec.offerings
    for written, gpus in (("h100", 24), ("H100", 16), ("h100-8x", 24)):
        up = server.navarch(*f"up --gpus {gpus} --type {written} --name training".split())
        assert up.returncode == 0, up
        pool = server.ask(lambda api: api.get_pool(PoolName("training")))
        assert (pool.size, pool.spec.offerings) == (gpus // 8, before), written


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("--provider fate", "unknown provider 'fate'; the server's providers are fake"),
        ("--type h100-88x", "unknown instance_type 'h100-88x'; fake has h100-8x, h100-1x"),
        ("--region loca", "unknown region 'loca'; fake has local"),
    ],
)
def test_a_pool_that_names_what_no_provider_has_is_refused_and_not_created(
    serve: Start, option: str, refusal: str
) -> None:
    server = serve("providers: {fake: {type: fake}}\n")
    known = "pool create new --provider fake --type h100-8x --region local --max 1"
    refused = server.navarch(*known.split(), *option.split())

    assert refused.returncode == 2, refused
    assert refusal in refused.stderr
    assert not server.ask(lambda api: api.list_pools())
    assert server.navarch(*known.split()).returncode == 0


@pytest.mark.parametrize("wait", ["--wait", "--no-wait"])
def test_a_pool_of_the_file_that_is_deleted_comes_with_a_warning(serve: Start, wait: str) -> None:
    server = serve(CONFIG.replace("BAD", "0"))
    deleted = server.navarch("down", "training", "-y", wait)
    assert deleted.returncode == 0, deleted.stderr
    text = " ".join(deleted.stdout.split())
    assert "The configuration file still has this pool, and a restart" in text
    up = server.navarch("up", "--gpus=8", "--type=h100", "--name=other")
    assert up.returncode == 0, up.stderr
    assert "configuration file" not in server.navarch("down", "other", "-y", wait).stdout
