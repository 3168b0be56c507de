"""The metrics of a real server: GPUs that report, faults and commands that are counted."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind

POWER = "navarch_node_gpu_power_watts"
READINGS = (
    "navarch_node_gpu_temperature_celsius",
    "navarch_node_gpu_utilization_percent",
    "navarch_node_gpu_memory_used_bytes",
    POWER,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FleetProcess]:
    made = FleetProcess(tmp_path)
    made.start()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def scrape(server: FleetProcess) -> dict[tuple[str, frozenset[str]], float]:
    """Return the samples by name and label values."""
    with urlopen(f"{server.url}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(server: FleetProcess, name: str, *labels: str) -> float | None:
    return scrape(server).get((name, frozenset(labels)))


def test_a_server_exposes_gpus_faults_and_commands(server: FleetProcess) -> None:
    nodes = ("training-0", "training-1")
    server.until(lambda: all(value(server, POWER, node, "7") is not None for node in nodes))
    found = scrape(server)
    assert all((name, frozenset({"training-0", "0"})) in found for name in READINGS)
    assert found["navarch_node_gpu_count", frozenset({"training-0"})] == 8
    assert found["navarch_xid_errors_total", frozenset({"79"})] == 0
    assert found["navarch_commands_issued_total", frozenset({"run_diagnostic"})] == 0

    done = server.navarch("sim", "inject", "training-0", "--xid", "79")
    assert done.returncode == 0, done.stderr
    server.until(lambda: value(server, "navarch_xid_errors_total", "79") == 1)
    node = NodeId("training-1")
    server.ask(lambda api: api.issue(node, CommandKind.RUN_DIAGNOSTIC))
    assert value(server, "navarch_commands_issued_total", "run_diagnostic") == 1


def test_a_reload_leaves_out_the_readings_of_single_gpus(server: FleetProcess) -> None:
    server.until(lambda: value(server, POWER, "training-1", "7") is not None)
    text = server.config.read_text()
    server.config.write_text(text.replace("server:", "server:\n  metrics: {per_gpu: false}"))
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)

    server.until(lambda: value(server, POWER, "training-1", "7") is None)
    found = scrape(server)
    assert found["navarch_node_gpu_count", frozenset({"training-1"})] == 8
    assert not any(name in READINGS for name, _ in found)
