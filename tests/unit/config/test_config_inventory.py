"""Inventory files."""

from pathlib import Path

import pytest

from navarch.config import ConfigError, load_config
from navarch.config.provider import BareMetalConfig

CONFIG = """
providers:
  rack:
    type: baremetal
    inventory: hosts.yaml
pools:
  training: {provider: rack, instance_type: h100-8x, max_nodes: 1}
"""


def write(folder: Path, inventory: str) -> Path:
    (folder / "hosts.yaml").write_text(inventory)
    (folder / "navarch.yaml").write_text(CONFIG)
    return folder / "navarch.yaml"


def test_the_provider_has_the_machines_of_the_file(tmp_path: Path) -> None:
    line = "{name: a, address: 10.0.0.1, host_key: ssh-ed25519 AAAA, instance_type: h100-8x}"
    provider = load_config(write(tmp_path, f"hosts: [{line}]\n")).providers["rack"]
    assert isinstance(provider, BareMetalConfig)
    assert [host.address for host in provider.hosts] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("inventory", "problem"),
    [
        ("hosts: [{name: a, address: x}]", "hosts.yaml:1:9: host_key is required"),
        ("host: []", 'unknown key "host"'),
        ("", "hosts is required"),
        ("hosts: [", "hosts.yaml:2:1: not valid YAML"),
    ],
    ids=["no key", "typo", "empty", "not yaml"],
)
def test_a_mistake_is_reported_in_the_inventory_file(
    tmp_path: Path, inventory: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, inventory))
    assert problem in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "")
    (tmp_path / "hosts.yaml").unlink()
    with pytest.raises(ConfigError, match=r"hosts\.yaml"):
        load_config(file)
