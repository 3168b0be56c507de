"""The SSH keys that `navarch up` gives to machines."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli_fleet import FleetCli, running_fleet

from navarch.core.ids import PoolName

KEY = "ssh-ed25519 AAAAC3Nza ada@example.com"
UP = "up --gpus 8 --type h100 --name demo"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetCli]:
    with running_fleet() as found:
        environ = {**found.cli.environment.environ, "HOME": str(tmp_path)}
        found.cli.environment = replace(found.cli.environment, environ=environ)
        yield found


def write_key(home: Path, text: str = f"{KEY}\n", name: str = "id_ed25519.pub") -> None:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / name).write_text(text)


def keys(fleet: FleetCli) -> tuple[str, ...]:
    control = fleet.world.control
    assert control is not None
    return fleet.runner.run(control.fleet.get_pool(PoolName("demo"))).spec.ssh_keys


def test_up_gives_the_machines_of_a_new_pool_the_users_key(fleet: FleetCli, tmp_path: Path) -> None:
    write_key(tmp_path)
    assert fleet.run(UP).exit_code == 0
    assert keys(fleet) == (KEY,)


def test_a_pool_keeps_its_keys_when_another_user_resizes_it(
    fleet: FleetCli, tmp_path: Path
) -> None:
    assert fleet.run([*UP.split(), "--ssh-key", "laptop"]).exit_code == 0
    write_key(tmp_path)
    assert fleet.run(UP.replace("8", "16")).exit_code == 0
    assert keys(fleet) == ("laptop",)
    assert fleet.run([*UP.split(), "--ssh-key", "desktop"]).exit_code == 0
    assert keys(fleet) == ("desktop",)


def test_a_pool_that_is_being_deleted_starts_again_with_the_users_key(
    fleet: FleetCli, tmp_path: Path
) -> None:
    write_key(tmp_path)
    assert fleet.run(UP).exit_code == 0
    fleet.wait(300)
    assert fleet.run("down demo --no-wait").exit_code == 0
    assert "machines left" in fleet.run("pool get demo").output
    assert fleet.run(UP).exit_code == 0
    assert keys(fleet) == (KEY,)


def test_a_key_that_the_user_names_replaces_the_own_key(fleet: FleetCli, tmp_path: Path) -> None:
    write_key(tmp_path)
    assert fleet.run([*UP.split(), "--ssh-key", "laptop"]).exit_code == 0
    assert keys(fleet) == ("laptop",)


@pytest.mark.parametrize("text", ["", "garbage", "two words", "ssh-rsa \x1b AAAA"])
def test_a_file_without_a_key_is_skipped(fleet: FleetCli, tmp_path: Path, text: str) -> None:
    write_key(tmp_path, text, "id_rsa.pub")
    write_key(tmp_path)
    assert fleet.run(UP).exit_code == 0
    assert keys(fleet) == (KEY,)


def test_without_a_key_nothing_is_sent(fleet: FleetCli) -> None:
    assert fleet.run(UP).exit_code == 0
    assert keys(fleet) == ()
