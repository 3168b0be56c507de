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


HOST = "name: {name}, address: 10.0.0.1, host_key: ssh-ed25519 AAAA"


def hosts(*controllers: str) -> str:
    lines = [
        f"  - {{{HOST.format(name=f'm{number}')}, bmc: {{{controller}}}}}"
        for number, controller in enumerate(controllers)
    ]
    return "\n".join(["hosts:", *lines, ""])


def test_a_controller_has_a_login_of_its_own_or_that_of_the_provider(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden\n")
    inventory = hosts(
        "address: https://b1, user: root, password_file: secret", "address: https://b2"
    )
    file = write(tmp_path, inventory)
    (tmp_path / "shared").write_text("for-all\n")
    keys = "bmc_user: monitor\n    bmc_password_file: shared\n    inventory:"
    file.write_text(CONFIG.replace("inventory:", keys))
    provider = load_config(file).providers["rack"]
    assert isinstance(provider, BareMetalConfig)
    assert (provider.bmc_user, provider.bmc_verify) == ("monitor", True)
    assert provider.bmc_password is not None
    assert provider.bmc_password.reveal() == "for-all"
    first, second = [host.bmc for host in provider.hosts]
    assert first is not None
    assert second is not None
    assert first.password is not None
    assert (first.user, first.password.reveal()) == ("root", "hidden")
    assert (second.user, second.password) == (None, None)
    assert "hidden" not in repr(provider)


@pytest.mark.parametrize(
    ("controllers", "is_mistake"),
    [
        (("address: https://b", "address: https://b/"), True),
        (("address: https://b, system: s1", "address: https://b, system: s1"), True),
        (("address: https://b, system: s1", "address: https://b, system: s2"), False),
    ],
)
def test_two_machines_cannot_have_one_controller(
    tmp_path: Path, controllers: tuple[str, ...], is_mistake: bool
) -> None:
    file = write(tmp_path, hosts(*controllers))
    if not is_mistake:
        load_config(file)
        return
    with pytest.raises(ConfigError, match="has the management controller of another host"):
        load_config(file)


def test_a_login_that_is_sent_as_clear_text_is_warned_of(tmp_path: Path) -> None:
    line = f"{{{HOST.format(name='m')}, instance_type: h100-8x, bmc: {{address: http://b}}}}"
    file = write(tmp_path, "")
    file.write_text(CONFIG.replace("inventory: hosts.yaml", f"hosts: [{line}]"))
    warnings = [warning.message for warning in load_config(file).warnings]
    (warning,) = warnings
    assert 'the management controller of "m" is sent as clear text' in warning
