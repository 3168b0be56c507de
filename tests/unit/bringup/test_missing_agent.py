"""Pools with machines from which no agent would ever register."""

from dataclasses import replace

import pytest

from navarch.app import bringup
from navarch.app.bringup import missing_agent
from navarch.config import Config, parse_config
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.pool import Pool

CONFIG = parse_config("""
server: {external_address: "https://navarch.example.com"}
providers:
  work: {type: aws, region: us-east-1}
  google: {type: gcp, project: p}
  lab: {type: lambda, api_key: k}
  fake: {type: fake}
  box: {type: docker}
  rack: {type: baremetal, hosts: [{name: a, address: b, host_key: k}]}
pools:
  private: {provider: work, instance_type: x, max_nodes: 1, control_plane_address: "http://10.0.0.5"}
""")
SSH = MachineSetup(agent=AgentStart.SSH, commands=("start-agent",))


def with_address(url: str | None) -> Config:
    return replace(CONFIG, server=replace(CONFIG.server, external_address=url))


def a_pool(
    name: str, *providers: str, user_data: str = "", setup: MachineSetup | None = None
) -> Pool:
    offerings = tuple(Offering(provider=ProviderName(x), instance_type="x") for x in providers)
    return Pool(
        name=PoolName(name),
        offerings=offerings,
        nodes_min=0,
        nodes_max=1,
        user_data=user_data,
        setup=setup or MachineSetup(),
    )


@pytest.mark.parametrize("provider", ["work", "google", "lab"])
def test_a_pool_of_any_origin_gets_an_agent_at_a_cloud_that_reaches_the_server(
    provider: str,
) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider)) is None


@pytest.mark.parametrize("provider", ["work", "google", "lab"])
def test_a_cloud_that_cannot_reach_the_server_is_refused_with_the_remedy(provider: str) -> None:
    assert missing_agent(with_address(None), a_pool("new", provider)) == (
        f"pool new: machines of {provider} cannot reach the server: no address is set for them; "
        "set server.external_address to a URL that they reach, such as "
        "https://navarch.example.com:50051, or pass it to `navarch serve --external-address`"
    )
    found = missing_agent(with_address("http://localhost:50051"), a_pool("new", provider))
    assert found is not None
    assert "at http://localhost:50051: there, that address is the machine itself" in found


def test_the_address_of_a_pool_is_enough_for_its_machines() -> None:
    assert missing_agent(with_address(None), a_pool("private", "work")) is None


@pytest.mark.parametrize("provider", ["fake", "box", "rack", "a-provider-of-an-embedder"])
def test_a_pool_with_an_agent_in_its_image_needs_no_address(provider: str) -> None:
    assert missing_agent(with_address(None), a_pool("new", provider)) is None


def test_user_data_or_an_image_may_start_the_agent_and_need_no_address() -> None:
    config = with_address(None)
    image = MachineSetup(agent=AgentStart.IMAGE)
    assert missing_agent(config, a_pool("new", "work", user_data="#cloud-config\n")) is None
    assert missing_agent(config, a_pool("new", "work", user_data=" \n")) is not None
    assert missing_agent(config, a_pool("new", "work", setup=image)) is None


def test_one_cloud_among_the_offerings_of_a_pool_is_enough() -> None:
    found = missing_agent(with_address(None), a_pool("new", "fake", "work"))
    assert found is not None
    assert "machines of work cannot" in found


def test_commands_over_ssh_need_a_private_key_at_clouds_and_the_ssh_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = missing_agent(CONFIG, a_pool("new", "work", setup=SSH))
    assert found is not None
    assert "set defaults.ssh_private_key_path" in found
    assert missing_agent(CONFIG, a_pool("new", "rack", setup=SSH)) is None
    keyed = replace(CONFIG, defaults=replace(CONFIG.defaults, ssh_private_key_path="/key"))
    assert missing_agent(keyed, a_pool("new", "work", setup=SSH)) is None
    monkeypatch.setattr(bringup, "can_open_shells", lambda: False)
    found = missing_agent(keyed, a_pool("new", "work", setup=SSH))
    assert found is not None
    assert "pip install 'navarch[ssh]'" in found
