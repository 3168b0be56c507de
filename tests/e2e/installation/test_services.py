"""Both services on a machine with a real systemd, from the install script to the first report."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.distribution import (
    NoPackagesError,
    build_release,
    builder_missing,
    download_locked,
)
from tests.support.systemd_machine import (
    MachineDidNotStartError,
    SystemdMachine,
    machine_missing,
    systemd_machine,
)

pytestmark = pytest.mark.long

PYTHON = "/usr/bin/python3"
"""One that the user navarch may run."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = machine_missing() or builder_missing()
    if missing is not None:
        pytest.skip(missing)
    release = build_release(tmp_path_factory.mktemp("release"))
    try:
        download_locked("control-plane", release)
    except NoPackagesError as error:
        pytest.skip(f"the packages cannot be had: {error}")
    return release


@pytest.fixture(scope="module")
def machine(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdMachine]:
    script = f"{release}/install.sh --from {release} --unit --python {PYTHON}"
    commands = [
        f"export PIP_NO_INDEX=1 PIP_FIND_LINKS={release}",
        f"{script} control-plane",
        f"{script} agent",
    ]
    try:
        with systemd_machine(tmp_path_factory.mktemp("m"), release, commands) as found:
            yield found
    except MachineDidNotStartError as error:
        pytest.skip(f"systemd did not start: {error}")


def test_services_start_confined_and_the_agent_registers(machine: SystemdMachine) -> None:
    started = machine.run("systemctl", "enable", "--now", "navarch", "navarch-agent")
    assert started.returncode == 0, started.stderr
    navarch = "/opt/navarch/bin/navarch"
    name = machine.run("hostname").stdout.strip()
    shown = machine.until(navarch, "get", name)
    assert "Last Heartbeat" in shown

    for unit, user in (("navarch", "navarch"), ("navarch-agent", "root")):
        asked = ("systemctl", "show", unit, "--property=NRestarts,MainPID", "--value")
        restarts, pid = sorted(machine.run(*asked).stdout.split(), key=int)
        assert restarts == "0"
        assert machine.run("ps", "-o", "user=", "-p", pid).stdout.strip() == user
    state = machine.run("stat", "--format=%U %a", "/var/lib/navarch", "/var/lib/navarch-agent")
    assert state.stdout.splitlines() == ["navarch 700", "root 700"]


def test_a_reload_reads_the_configuration_again(machine: SystemdMachine) -> None:
    machine.run("systemctl", "start", "navarch")
    pool = "pools: {extra: {provider: simulated, instance_type: h100-8x, max_nodes: 1}}"
    edit = f"echo '{pool}' >> /etc/navarch/navarch.yaml"
    assert machine.run("sh", "-c", edit).returncode == 0
    machine.until("systemctl", "reload", "navarch")
    machine.until("/opt/navarch/bin/navarch", "pool", "get", "extra")


def test_a_killed_agent_comes_back_and_an_invalid_configuration_does_not(
    machine: SystemdMachine,
) -> None:
    machine.run("systemctl", "start", "navarch", "navarch-agent")
    machine.run("systemctl", "kill", "--signal=KILL", "navarch-agent")
    machine.until("sh", "-c", "systemctl show navarch-agent --property=NRestarts | grep -qv =0")
    machine.until("systemctl", "is-active", "navarch-agent")

    machine.run("sh", "-c", "echo 'poools: {}' >> /etc/navarch/navarch.yaml")
    machine.run("systemctl", "restart", "navarch")
    machine.until("systemctl", "is-failed", "navarch")
    assert "poools" in machine.run("journalctl", "--unit=navarch", "--no-pager").stdout


def test_uninstalling_stops_the_services_and_keeps_settings_and_state(
    machine: SystemdMachine, release: Path
) -> None:
    removed = machine.run(str(release / "install.sh"), "--uninstall")
    assert removed.returncode == 0, removed.stderr
    assert machine.run("systemctl", "is-active", "navarch-agent").returncode != 0
    assert machine.run("ls", "/etc/systemd/system/navarch.service").returncode != 0
    assert machine.run("sh", "-c", "ls -d /opt/navarch*").returncode != 0
    kept = ("/etc/navarch/agent.env", "/etc/navarch/navarch.yaml", "/var/lib/navarch/navarch.db")
    assert machine.run("ls", *kept).returncode == 0
