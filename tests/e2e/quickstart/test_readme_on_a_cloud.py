"""The README's quick start on a cloud, word for word, from credentials to a healed machine.

Two terminals type the commands. The machines that the local Lambda sells boot here with their user
data, and are reachable at their addresses.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from quick_start import (
    BootedCloud,
    MachineAtCloud,
    log_in,
    reader_account,
    readme_commands,
    skip_unless_machines_start,
    until,
)
from tests.support.alert_services import ALERTMANAGER_ALERTS, problem
from tests.support.cloud_network import own_network
from tests.support.lambda_server import KEY, LocalLambda, local_lambda
from tests.support.prometheus import PROMETHEUS, Prometheus
from tests.support.terminal import COLUMNS, TypingTerminal, typing_terminal

from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on the path: install it with apt"),
]

FIRING = 'ALERTS{alertname="NavarchGpuFallenOffBus",alertstate="firing"}'
CONFIG = """
providers: {{lambda: {{type: lambda, endpoint: {cloud}}}}}
alerts: {{channels: {{oncall: {{type: alertmanager, url: {alerts}}}}}}}
"""


def started(cloud: LocalLambda) -> Mapping[str, MachineAtCloud]:
    """Return the machines that have an address."""
    return {
        machine.id: MachineAtCloud(
            address=cloud.address_of(machine),
            user_data=str(machine.request.user_data).encode(),
            keys=[cloud.ssh_keys[name] for name in machine.request.ssh_key_names],
        )
        for machine in cloud.alive()
        if cloud.has_booted(machine)
    }


@pytest.fixture
def reader(tmp_path: Path) -> Mapping[str, str]:
    return reader_account(tmp_path)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LocalLambda]:
    skip_unless_machines_start(tmp_path / "trial")
    settings = {"boot_s": 1.0, "linger_s": 2.0, "paced": False}
    with own_network(), local_lambda(now_s=time.monotonic, **settings) as found:
        yield found


@pytest.fixture
def machines(cloud: LocalLambda, tmp_path: Path) -> Iterator[BootedCloud]:
    with BootedCloud(tmp_path / "machines", lambda: started(cloud)) as found:
        yield found


@pytest.fixture
def alerts() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the address of a service with Alertmanager's schema, and what it has accepted."""
    accepted: list[dict[str, Any]] = []

    def answer(request: HttpRequest) -> HttpResponse:
        wrong = problem(request.body, ALERTMANAGER_ALERTS)
        if wrong is None:
            accepted.extend(json.loads(request.body))
        return HttpResponse(200 if wrong is None else 400, json.dumps(wrong).encode())

    with serve(answer, Wire()) as url:
        yield url, accepted


def test_a_reader_of_the_readme_gets_a_machine_and_its_replacement(
    cloud: LocalLambda,
    machines: BootedCloud,
    alerts: tuple[str, list[dict[str, Any]]],
    reader: Mapping[str, str],
    tmp_path: Path,
) -> None:
    server_lines, lines = readme_commands("On a cloud")
    config = tmp_path / "navarch.yaml"
    config.write_text(CONFIG.format(cloud=cloud.url, alerts=alerts[0]))
    with (
        typing_terminal(reader, tmp_path) as first,
        typing_terminal(reader, tmp_path) as second,
    ):
        for line in server_lines:
            type_on_server(first, line, cloud)
        stop(first)
        serve_again = f"{server_lines[-1]} --config {config}"
        first.type(serve_again)
        first.wait_for("In another terminal")
        with Prometheus.started(tmp_path / "prometheus", "127.0.0.1:50051") as prometheus:
            for line in lines:
                if line.startswith("navarch down"):
                    replace_first_machine(second, machines)
                    until(lambda: bool(alerts[1]))
                    assert {x["labels"]["alertname"] for x in alerts[1]} == {"node-fault"}
                    until(lambda: prometheus.value(FIRING) == 1)
                type_as_user(second, line)
        stop(first)
    assert machines.count == 2
    assert cloud.alive() == []


def type_on_server(terminal: TypingTerminal, line: str, cloud: LocalLambda) -> None:
    """Type a line of the README on the machine of the control plane."""
    if line.startswith("navarch serve"):
        terminal.type(line)
        terminal.wait_for("In another terminal")
    elif "set-credentials" in line:
        terminal.type(f"{line} --endpoint {cloud.url}")
        terminal.wait_for("API key")
        terminal.wait_for(":")
        terminal.type(KEY)
        terminal.finish()
    else:
        terminal.run(line)


def stop(terminal: TypingTerminal) -> None:
    terminal.press("\x03")
    terminal.wait_for("ready> ")


def type_as_user(terminal: TypingTerminal, line: str) -> None:
    """Type a line of the README that uses the control plane."""
    if line.startswith("navarch ssh"):
        log_in(terminal, line)
    elif line.startswith("navarch down"):
        terminal.type(line)
        terminal.wait_for("[y/N]")
        terminal.type("y")
        terminal.finish()
    else:
        printed = terminal.run(line)
        if "status" in line or "offers" in line:
            fits(printed)


def replace_first_machine(terminal: TypingTerminal, machines: BootedCloud) -> None:
    """Break a GPU of the machine, and watch until its replacement serves."""
    machines.newest.report_xid(79, gpu=3)
    until(lambda: "XID 79" in fits(terminal.run("navarch status")))
    assert "XID 79" in terminal.run("navarch why my-cluster-0")
    fits(terminal.run("navarch alert list"))
    until(lambda: re.search(r"my-cluster +1/1", fits(terminal.run("navarch status"))) is not None)
    assert "replaces my-cluster-0" in terminal.run("navarch why my-cluster-1")
    fits(terminal.run("navarch events"))


def fits(screen: str) -> str:
    """Return what a command printed, every line of which has to fit the terminal.

    A single word, such as the path of the store, stays whole: a person may copy it.
    """
    screen = re.sub("\x1b\\[[0-9;]*m", "", screen)
    long = [x for x in screen.splitlines() if len(x.rstrip()) > COLUMNS and " " in x.strip()]
    assert long == [], long
    return screen
