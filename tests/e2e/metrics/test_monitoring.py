"""The dashboard, the alert rules and the page of metrics, with a real server and Prometheus."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.fleet_process import FleetProcess
from tests.support.metrics_page import ROOT, rows
from tests.support.prometheus import PROMETHEUS, Prometheus

from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on the path: install it with apt"),
]

CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 500ms, bad_boot_share: 0}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 2, max_nodes: 4}
budgets:
  - {of: fleet, limit_per_month: 250000}
"""

WITHOUT_DATA: dict[str, str] = {}
"""Panels that may be empty, with the reason."""


def panels() -> list[dict[str, Any]]:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "navarch.json").read_text("utf-8"))
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def query(url: str, target: dict[str, Any], since: float) -> Sequence[Any]:
    """Return the series of a query, over the time since `since` unless it is of one moment."""
    now = time.time()
    expression = target["expr"].replace("$pool", ".*").replace("$__rate_interval", "10s")
    if target.get("instant"):
        path, times = "query", {"time": now}
    else:
        path, times = "query_range", {"start": since, "end": now, "step": 1}
    with urlopen(f"{url}/api/v1/{path}?{urlencode({'query': expression, **times})}") as reply:
        found = json.load(reply)
    return [each for each in found["data"]["result"] if has_number(each)]


def has_number(series: dict[str, Any]) -> bool:
    values = series.get("values") or [series["value"]]
    return any(value != "NaN" for _, value in values)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FleetProcess, Prometheus]]:
    server = FleetProcess(tmp_path_factory.mktemp("fleet"), config=CONFIG)
    server.start()
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{server.port}")
    try:
        server.until(prometheus.is_scraping)
        yield server, prometheus
    finally:
        prometheus.process.terminate()
        prometheus.process.wait(timeout=20)
        server.kill()


Lively = tuple[FleetProcess, Prometheus, float]


@pytest.fixture(scope="module")
def lively(served: tuple[FleetProcess, Prometheus]) -> Lively:
    """Return a fleet with a fault, a replacement, a job and a failed call, and its start."""
    server, prometheus = served
    since = time.time()

    def run(*words: str) -> None:
        done = server.navarch(*words)
        assert done.returncode == 0, done.stderr

    server.until(lambda: prometheus.value("sum(navarch_pool_serving_nodes)") == 2)
    run("job", "submit", "train", "--gpus", "8", "--wait")
    run("sim", "inject", "training-1", "--check", "thermal", "--health", "degraded")
    run("sim", "inject", "training-0", "--xid", "79")
    server.ask(lambda api: api.issue(NodeId("training-1"), CommandKind.RUN_DIAGNOSTIC))
    assert server.navarch("get", "nope").returncode != 0
    return server, prometheus, since


def test_every_panel_has_data(lively: Lively) -> None:
    server, prometheus, since = lively
    empty: set[str] = set()

    def all_have_data() -> bool:
        empty.clear()
        for panel in panels():
            if not all(query(prometheus.url, target, since) for target in panel["targets"]):
                empty.add(panel["title"])
        return empty <= WITHOUT_DATA.keys()

    try:
        server.until(all_have_data)
    finally:
        print("panels without data:", empty)


def test_every_rule_can_be_evaluated_and_an_xid_fires_its_alert(lively: Lively) -> None:
    server, prometheus, _ = lively

    def rules() -> dict[str, dict[str, Any]]:
        groups = prometheus.get("rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    server.until(lambda: rules()["NavarchGpuFallenOffBus"]["state"] == "firing")
    assert {name for name, rule in rules().items() if rule["health"] != "ok"} == set()
    assert rules()["NavarchDown"]["state"] == "inactive"


def test_a_server_exposes_the_metrics_of_the_reference_page(lively: Lively) -> None:
    server, _, _ = lively
    with urlopen(f"{server.url}/metrics") as reply:
        families = list(text_string_to_metric_families(reply.read().decode()))
    exposed = {
        (f"{each.name}_total" if each.type == "counter" else each.name, each.type)
        for each in families
        if each.name.startswith("navarch_")
    }

    # Its state is a file, which no other server uses.
    alone = [row for row in rows() if not row[0].startswith("navarch_replica_")]
    assert exposed == {(name, kind) for name, kind, _ in alone}
