"""Logins to machines, from the configuration, and `navarch ssh` with them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.app.access import login_of
from navarch.cli.environment import CliEnvironment
from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.config import Config, parse_config, to_pool, to_pool_specs
from navarch.core.errors import NotFoundError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.ports.access import AccessApi, NodeLogin
from navarch.testing.worlds import a_node, a_pool


def configured(key: Path) -> Config:
    return parse_config(f"""
server: {{external_address: https://n.com}}
providers:
  sim: {{type: fake}}
  box: {{type: docker}}
  work: {{type: aws, region: us-east-1}}
  rack:
    type: baremetal
    ssh_private_key_path: {key}
    hosts:
      - {{name: gpu.1, address: 10.0.0.1, host_key: k, ssh_user: ops, ssh_port: 2222}}
pools:
  train: {{provider: work, instance_type: h100, max_nodes: 2, ssh_user: rocky, ssh_port: 2200,
          ssh_private_key_path: {key}, ssh_by_private_address: true}}
""")


def bought_at(provider: str, *, pool: str = "other", instance: str = "i-1") -> Node:
    node = a_node("n", pool)
    assert node.launch is not None
    offering = evolve(node.launch.offering, provider=ProviderName(provider))
    launch = evolve(
        node.launch, offering=offering, instance=InstanceId(instance), public_address="198.51.0.7"
    )
    return evolve(node, launch=launch)


@pytest.mark.parametrize(
    ("node", "login"),
    [
        (bought_at("sim"), NodeLogin(simulated=True)),
        (bought_at("box"), NodeLogin()),
        (bought_at("removed"), NodeLogin()),
        (bought_at("work"), NodeLogin(user="ubuntu")),
        (
            bought_at("work", pool="train"),
            NodeLogin(user="rocky", port=2200, key_file="/key", private_address=True),
        ),
        (
            bought_at("rack", instance="gpu.1.a7"),
            NodeLogin(user="ops", port=2222, key_file="/key"),
        ),
        (bought_at("rack", instance="sold.a7"), NodeLogin()),
    ],
)
def test_a_login_comes_from_the_inventory_the_pool_or_the_image(
    node: Node, login: NodeLogin
) -> None:
    config = configured(Path("/key"))
    pools = {"train": to_pool(*to_pool_specs(config)), "other": a_pool()}
    assert login_of(config, node, pools[node.pool or ""]) == login


async def typed(local: LocalApi, words: str) -> tuple[Result, list[Sequence[str]]]:
    executed: list[Sequence[str]] = []
    environment = CliEnvironment(execute=executed.append, environ={})
    arguments = ["--server", local.http_url, *words.split()]
    result = await asyncio.to_thread(CliRunner().invoke, navarch, arguments, obj=environment)
    return result, executed


async def hold(local: LocalApi, node: Node) -> None:
    before = local.store.fleet()
    event = Event(at=node.since, about=about("node", node.id), kind="node.ready", reason="x")
    await local.store.commit(Change(nodes=[node], events=[event]), based_on=before.revision)


def test_ssh_uses_the_login_of_the_inventory_unless_options_say_otherwise(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret")

    async def main() -> None:
        async with serve_local_api(build_local_api(config=configured(key))) as local:
            await hold(local, bought_at("rack", instance="gpu.1.a7"))
            _, plain = await typed(local, "ssh n -- nvidia-smi -L")
            _, chosen = await typed(local, "ssh n -l me -i mine -p 22")
            key.unlink()
            _, elsewhere = await typed(local, "ssh n")

            to = ["--", "198.51.0.7"]
            assert plain == [
                ["ssh", "-l", "ops", "-i", str(key), "-p", "2222", *to, "nvidia-smi", "-L"]
            ]
            assert chosen == [["ssh", "-l", "me", "-i", "mine", "-p", "22", *to]]
            assert elsewhere == [["ssh", "-l", "ops", "-p", "2222", *to]]

    asyncio.run(main())


def test_ssh_to_a_simulated_machine_is_refused_in_a_sentence() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(config=configured(Path("/key")))) as local:
            await hold(local, bought_at("sim"))
            result, executed = await typed(local, "ssh n")

            assert result.exit_code == 4
            assert "node n is simulated: there is no machine to log in to" in result.stderr
            assert executed == []

    asyncio.run(main())


def test_the_login_of_an_unknown_node_is_not_found() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api()) as local:
            api = connect_fleet(local.http_url)
            assert isinstance(api, AccessApi)
            with pytest.raises(NotFoundError, match="gpu-9"):
                await api.get_login(NodeId("gpu-9"))
            await api.close()

    asyncio.run(main())
