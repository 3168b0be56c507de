"""Metrics: the port's adapters, and what the server exposes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.metrics import (
    PrometheusMetrics,
    fleet_metrics,
    render_metrics,
    server_metrics,
)
from navarch.control.providers.guard import CallMetrics
from navarch.control.runtime.runtime import ControllerMetrics
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId
from navarch.core.records import Table
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.testing.worlds import a_node

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def record(metrics: Metrics) -> None:
    """Record one of each instrument."""
    runs = metrics.counter("runs_total", "Runs.", labels=("controller", "result"))
    depth = metrics.gauge("depth", "Queue depth.")
    seconds = metrics.histogram("run_seconds", "Seconds.", labels=("controller",), buckets=(1, 5))
    runs.add(controller="a", result="ok")
    runs.add(2, controller="a", result="ok")
    depth.set(7)
    depth.set(3)
    for value in (0.5, 2.0, 9.0):
        seconds.observe(value, controller="a")


def test_every_adapter_takes_the_same_calls() -> None:
    for metrics in (NoMetrics(), RecordingMetrics(), PrometheusMetrics()):
        record(metrics)


def test_recorded_values_can_be_read_back() -> None:
    metrics = RecordingMetrics()
    record(metrics)

    assert metrics.value("runs_total", controller="a", result="ok") == 3
    assert metrics.value("runs_total", controller="b", result="ok") == 0
    assert metrics.value("depth") == 3
    assert metrics.observations("run_seconds", controller="a") == (0.5, 2.0, 9.0)
    assert metrics.names() == ["depth", "run_seconds", "runs_total"]


def test_prometheus_receives_the_same_values() -> None:
    metrics = PrometheusMetrics()
    record(metrics)

    lines = render_metrics(metrics.collect()).decode().splitlines()

    assert [line for line in lines if not line.startswith("#")] == [
        'runs_total{controller="a",result="ok"} 3.0',
        "depth 3.0",
        'run_seconds_bucket{controller="a",le="1.0"} 1.0',
        'run_seconds_bucket{controller="a",le="5.0"} 2.0',
        'run_seconds_bucket{controller="a",le="+Inf"} 3.0',
        'run_seconds_count{controller="a"} 3.0',
        'run_seconds_sum{controller="a"} 11.5',
    ]


@pytest.mark.parametrize("metrics", [RecordingMetrics(), PrometheusMetrics()], ids=type)
def test_a_wrong_name_or_label_is_an_error(metrics: Metrics) -> None:
    with pytest.raises(AssertionError, match="ends in _total"):
        metrics.counter("runs", "Runs.")
    runs = metrics.counter("runs_total", "Runs.", labels=("controller",))
    with pytest.raises((AssertionError, ValueError)):
        runs.add(pool="a")
    with pytest.raises((AssertionError, ValueError)):
        metrics.counter("runs_total", "Runs.")


def test_the_servers_metrics_keep_their_names() -> None:
    text = render_metrics(server_metrics(Fleet(), 5)).decode()

    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "navarch_store_revision 0.0",
        "navarch_heartbeats_received_total 5.0",
        "navarch_commands_waiting 0.0",
    ]


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    metrics = PrometheusMetrics()
    rounds = ControllerMetrics(metrics)
    rounds.depths.set(1, controller="pools")
    rounds.waits.observe(0.0, controller="pools")
    rounds.results.add(controller="pools", result="conflict")
    rounds.retries.add(controller="pools")
    rounds.durations.observe(0.1, controller="pools")
    calls = CallMetrics(metrics)
    calls.results.add(provider="sim", call="provision", result="ok")
    calls.durations.observe(0.1, provider="sim", call="provision")
    fleet = Fleet(nodes=Table({NodeId("a"): a_node("a")}))
    families = (*fleet_metrics(fleet), *server_metrics(Fleet(), 5), *metrics.collect())
    text = render_metrics(families).decode()
    exposed = set()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = sorted({label for each in family.samples for label in each.labels} - {"le"})
        exposed.add((name, family.type, ", ".join(f"`{label}`" for label in labels)))

    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if "| `" in line]

    assert {(row[1].strip(" `"), row[2].strip(), row[3].strip()) for row in rows} == exposed


def test_promtool_accepts_the_exposition() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool to check the text with")
    metrics = PrometheusMetrics()
    record(metrics)
    fleet = Fleet()
    text = render_metrics((*fleet_metrics(fleet), *server_metrics(fleet, 5), *metrics.collect()))

    command = [promtool, "check", "metrics"]
    answer = subprocess.run(command, input=text, capture_output=True, check=False)

    # promtool exits with 1 when it cannot parse the text, and with 3 for a lint remark.
    assert answer.returncode in {0, 3}, answer.stderr.decode()
