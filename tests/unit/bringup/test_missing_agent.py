"""Pools with machines from which no agent would ever register."""

from dataclasses import replace
from typing import Any

import pytest

from navarch.app import bringup
from navarch.app.bringup import missing_agent as judge
from navarch.config import Config, parse_config
from navarch.config.provider import AwsConfig
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.pool import Pool
from navarch.core.records import evolve

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
UBUNTU = "cpython-312-x86_64-linux-gnu"
"""The Python of the default images."""
OWN = "cpython-399-riscv64-linux-gnu"
"""A Python of a server that has no wheels."""
SSH = MachineSetup(agent=AgentStart.SSH, commands=("start-agent",))


def missing_agent(config: Config, pool: Pool, *abis: str) -> str | None:
    return judge(config, pool, abis or (UBUNTU,))


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


@pytest.mark.parametrize("provider", ["work", "google"])
def test_machines_whose_python_the_server_has_no_code_for_are_refused_with_the_remedies(
    provider: str,
) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider), OWN) == (
        f"pool new: no agent would start on machines of {provider}: their image has Python 3.12 "
        "(x86_64), and this server has the agent for Python 3.99 (riscv64) only; set "
        "server.agent_index: true or NAVARCH_AGENT_INDEX=true, and machines download the rest from "
        "PyPI by its SHA-256, or set server.agent_wheels"
    )
    assert missing_agent(CONFIG, a_pool("new", provider), OWN, UBUNTU) is None


def test_the_image_of_the_machine_decides_and_an_unknown_image_is_accepted() -> None:
    canonical = "resolve:ssm:/aws/service/canonical/ubuntu/server/22.04/stable/current/amd64/x/id"
    aws = CONFIG.providers["work"]
    assert isinstance(aws, AwsConfig)

    def found(*, setup: str = "", **settings: Any) -> str | None:  # noqa: ANN401 - keys of a provider
        config = replace(CONFIG, providers={**CONFIG.providers, "work": replace(aws, **settings)})
        return missing_agent(config, a_pool("new", "work", setup=MachineSetup(image=setup)), OWN)

    assert found() is not None
    assert found(setup="ami-1") is None
    assert found(image="ami-1") is None
    assert found(images={"us-east-1": "ami-1"}) is None
    assert found(images={"us-west-2": "ami-1"}) is not None
    refused = found(image=canonical)
    assert refused is not None
    assert f"the image {canonical} has Python 3.10, and the agent needs Python 3.11" in refused
    assert missing_agent(CONFIG, a_pool("new", "lab"), OWN) is None, "Lambda's image is unknown"


def test_arm_machines_need_code_for_arm() -> None:
    arm = Offering(provider=ProviderName("work"), instance_type="p6e-gb200.36xlarge")
    pool = evolve(a_pool("new", "work"), offerings=(arm,))
    found = missing_agent(CONFIG, pool, UBUNTU)
    assert found is not None
    assert "Python 3.12 (aarch64), and this server has the agent for Python 3.12 (x86_64)" in found


def test_what_may_install_another_python_or_the_agent_is_accepted() -> None:
    for setup in (
        MachineSetup(commands=("apt-get install -y python3.11",)),
        MachineSetup(user_data="#cloud-config\n"),
        MachineSetup(install_command="pip install navarch"),
        MachineSetup(agent=AgentStart.IMAGE),
    ):
        assert missing_agent(CONFIG, a_pool("new", "work", setup=setup), OWN) is None
    pool = a_pool("new", "work", user_data="#cloud-config\n")
    assert missing_agent(CONFIG, pool, OWN) is None
    blank = a_pool("new", "work", setup=MachineSetup(user_data=" \n"))
    assert missing_agent(CONFIG, blank, OWN) is not None


@pytest.mark.parametrize("provider", ["fake", "box", "rack"])
def test_machines_that_bring_their_agent_need_no_compiled_code(provider: str) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider), OWN) is None
