"""Pools with machines that would never start an agent."""

import pytest

from navarch.app.bringup import missing_agent
from navarch.config import parse_config
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.pool import Pool

CONFIG = parse_config("""
server: {external_address: "https://navarch.example.com"}
defaults: {ssh_private_key_path: /key}
providers:
  work: {type: aws, region: us-east-1}
  imaged: {type: aws, region: us-east-1, image: ami-1}
  google: {type: gcp, project: p}
  lab: {type: lambda, api_key: k}
  fake: {type: fake}
  box: {type: docker}
  rack: {type: baremetal, hosts: [{name: a, address: b, host_key: k}]}
pools:
  by-cloud-init: {provider: work, instance_type: x, max_nodes: 1, cloud_init: true}
  by-ssh: {provider: work, instance_type: x, max_nodes: 1, setup_commands: [start-agent]}
  by-image: {provider: imaged, instance_type: x, max_nodes: 1}
  simulated: {provider: fake, instance_type: x, max_nodes: 1}
""")


def a_pool(name: str, *providers: str, user_data: str = "") -> Pool:
    offerings = tuple(Offering(provider=ProviderName(x), instance_type="x") for x in providers)
    return Pool(
        name=PoolName(name), offerings=offerings, nodes_min=0, nodes_max=1, user_data=user_data
    )


@pytest.mark.parametrize("provider", ["work", "imaged", "google", "lab"])
def test_a_cloud_pool_outside_the_file_gets_no_agent(provider: str) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider)) == (
        f"nothing starts the agent on machines that pool new buys from {provider}, so they would "
        "cost money and never register; add pool new to the configuration file of the server with "
        "cloud_init: true or setup_commands, or send user_data that starts the agent with "
        "PUT /v1/pools/new"
    )


@pytest.mark.parametrize("provider", ["fake", "box", "rack", "a-provider-of-an-embedder"])
def test_a_pool_with_an_agent_in_its_image_needs_no_setup(provider: str) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider)) is None


@pytest.mark.parametrize("provider", ["work", "google", "lab"])
def test_user_data_may_start_the_agent(provider: str) -> None:
    assert missing_agent(CONFIG, a_pool("new", provider, user_data="#cloud-config\n")) is None
    assert missing_agent(CONFIG, a_pool("new", provider, user_data=" \n")) is not None


@pytest.mark.parametrize("name", ["by-cloud-init", "by-ssh"])
def test_a_pool_with_setup_in_the_file_gets_its_agent_at_every_cloud(name: str) -> None:
    assert missing_agent(CONFIG, a_pool(name, "work", "google", "lab")) is None


def test_a_pool_of_the_file_without_setup_may_buy_only_where_the_file_allows() -> None:
    assert missing_agent(CONFIG, a_pool("by-image", "imaged")) is None
    elsewhere = missing_agent(CONFIG, a_pool("by-image", "imaged", "google", "work"))
    assert elsewhere is not None
    assert "buys from google and work, so" in elsewhere
    assert missing_agent(CONFIG, a_pool("simulated", "fake")) is None
    assert missing_agent(CONFIG, a_pool("simulated", "work")) is not None


def test_one_cloud_among_the_offerings_of_a_pool_is_enough() -> None:
    found = missing_agent(CONFIG, a_pool("new", "fake", "work"))
    assert found is not None
    assert "buys from work, so" in found
