"""Metrics: the port's adapters, and what the server exposes."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterable

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.support.exposition import a_table, values_of
from tests.support.local_api import build_local_api
from tests.support.metrics_page import rows
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.fleet_metrics import (
    CHECK_LENGTH_MAX,
    CHECKS_MAX,
    SLICE,
    Telemetry,
    fleet_exposition,
)
from navarch.api.forward.leaders import Held
from navarch.api.metrics import PrometheusMetrics, render_metrics, server_metrics
from navarch.app.replica_book import ReplicaBook
from navarch.clock import SystemClock, SystemEntropy
from navarch.control.alerts import count_deliveries
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.ledger import Ledger
from navarch.control.providers.guard import Providers
from navarch.control.runtime.commit_metrics import CommitMetrics
from navarch.control.runtime.extensions import ExtensionGuard
from navarch.control.runtime.runtime import Runtime
from navarch.core.alert import AlertGroup
from navarch.core.fleet import Fleet
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.records import Table
from navarch.core.version import VERSION
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.memory import MemoryStore
from navarch.stores.postgres_connection import PostgresAddress
from navarch.stores.postgres_replicas import PostgresReplicas
from navarch.testing.worlds import NOW, a_node, a_pool

HOSTILE = 'a"} 1\n# TYPE b\\ gauge\r\x7f\u2028{é%s'


def a_fleet(*nodes: Node) -> Fleet:
    return Fleet(nodes=Table({node.id: node for node in nodes}))


def expose(fleet: Fleet, others: Iterable[Metric] = (), readings: Telemetry | None = None) -> str:
    slices = fleet_exposition(fleet, now=NOW, others=others, telemetry=readings, spent={})
    return b"".join(slices).decode()


def rendered(metrics: Iterable[Metric]) -> str:
    return b"".join(render_metrics(metrics)).decode()


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

    lines = rendered(metrics.collect()).splitlines()

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
    text = rendered(server_metrics(Fleet(), 5))

    assert [line for line in text.splitlines() if line.startswith("navarch_")] == [
        f'navarch_build_info{{version="{VERSION}"}} 1.0',
        "navarch_store_revision 0.0",
        "navarch_heartbeats_received_total 5.0",
        "navarch_commands_waiting 0.0",
    ]


async def declare_those_of_a_replica(metrics: Metrics) -> None:
    table = PostgresReplicas(SystemClock(), PostgresAddress("postgresql://db/navarch"))
    ReplicaBook(SystemClock(), InlineOffload(), table, certificate=str).declare(metrics)
    Held(metrics)


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    metrics = RecordingMetrics()
    Providers([], metrics)
    ExtensionGuard(SystemClock().now, metrics)
    CommitMetrics(metrics, Fleet())
    Runtime(SystemClock(), SystemEntropy(), [], strict=True, metrics=metrics)
    build_local_api(metrics=metrics)
    count_deliveries(metrics)
    store = MemoryStore(Cluster(id="c", secret=bytes(32)))
    BudgetController(SystemClock(), store, (), Ledger(SystemClock(), store), metrics)
    asyncio.run(declare_those_of_a_replica(metrics))
    declared = {(name, kind, labels) for name, (kind, labels) in metrics.declared().items()}
    fault = Condition(check="nvml", health=Health.DEGRADED, reason="", since=NOW)
    fleet = Fleet(
        nodes=Table({NodeId("a"): a_node("a", conditions=(fault,), gpus=8)}),
        pools=Table({PoolName("training"): a_pool()}),
        alert_groups=Table({"ops/x": AlertGroup(id="ops/x", channel="ops", group="x")}),
    )
    text = expose(fleet, server_metrics(Fleet(), 5), a_table("a"))
    for family in text_string_to_metric_families(text):
        if family.name.startswith("navarch_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            declared |= {(name, family.type, tuple(each.labels)) for each in family.samples}

    assert set(rows()) == {
        (name, kind, ", ".join(f"`{label}`" for label in sorted(labels)))
        for name, kind, labels in declared
    }


def test_promtool_accepts_the_exposition() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool to check the text with")
    metrics = PrometheusMetrics()
    record(metrics)
    fault = Condition(check='x"\\\n', health=Health.DEGRADED, reason="", since=NOW)
    fleet = a_fleet(a_node(HOSTILE, conditions=(fault,), gpus=8))
    others = (*server_metrics(fleet, 5), *metrics.collect())
    text = expose(fleet, others, a_table(HOSTILE)).encode()

    command = [promtool, "check", "metrics"]
    answer = subprocess.run(command, input=text, capture_output=True, check=False)

    # promtool exits with 1 when it cannot parse the text, and with 3 for a lint remark.
    assert answer.returncode in {0, 3}, answer.stderr.decode()


def test_each_gpu_has_the_readings_of_the_last_heartbeat() -> None:
    text = expose(a_fleet(a_node("a"), a_node("quiet")), readings=a_table("a"))

    name = "navarch_node_gpu"
    assert values_of(text, f"{name}_temperature_celsius") == {("a", "0"): 65.3, ("a", "1"): 20}
    assert values_of(text, f"{name}_utilization_percent") == {("a", "0"): 99, ("a", "1"): 0}
    assert values_of(text, f"{name}_memory_used_bytes") == {("a", "0"): 2**36, ("a", "1"): 0}
    assert values_of(text, f"{name}_power_watts") == {("a", "0"): 700, ("a", "1"): 0}


def test_nodes_are_counted_by_health_and_nodes_that_are_gone_are_not() -> None:
    gone = a_node("d", phase=Phase.GONE, health=Health.UNHEALTHY, gpus=8)
    text = expose(
        a_fleet(
            a_node("a", health=Health.HEALTHY, gpus=8),
            a_node("b", health=Health.UNHEALTHY),
            a_node("c", health=Health.DEGRADED, gpus=0),
            gone,
        ),
        readings=a_table("d"),
    )

    assert values_of(text, "navarch_nodes_healthy") == {(): 1}
    assert values_of(text, "navarch_nodes_unhealthy") == {(): 1}
    assert values_of(text, "navarch_node_gpu_count") == {("a",): 8, ("c",): 0}
    assert 'node_id="d"' not in text


def test_a_check_has_its_worst_result_on_a_node() -> None:
    names = ("xid/31/GPU-1", "xid/79/GPU-2", "nvml", *(f"made-up-{i}" for i in range(100)))
    conditions = tuple(
        Condition(
            check=name,
            health=Health.UNHEALTHY if name.startswith("xid/79") else Health.DEGRADED,
            reason="",
            since=NOW,
        )
        for name in names
    )
    found = values_of(
        expose(a_fleet(a_node("a", conditions=conditions))), "navarch_node_health_check_status"
    )

    assert (found["a", "xid"], found["a", "nvml"], len(found)) == (0, 0.5, CHECKS_MAX)


def test_a_long_name_of_a_check_is_cut_and_keeps_one_series() -> None:
    conditions = tuple(
        Condition(check="x" * length, health=Health.DEGRADED, reason="", since=NOW)
        for length in (1000, 1001)
    )
    text = expose(a_fleet(a_node("a", conditions=conditions)))

    check = "x" * CHECK_LENGTH_MAX
    assert values_of(text, "navarch_node_health_check_status") == {("a", check): 0.5}


def test_a_hostile_name_stays_a_label() -> None:
    fault = Condition(check=HOSTILE, health=Health.DEGRADED, reason="", since=NOW)
    text = expose(a_fleet(a_node(HOSTILE, conditions=(fault,), gpus=2)), readings=a_table(HOSTILE))

    assert values_of(text, "navarch_node_gpu_temperature_celsius")[HOSTILE, "1"] == 20
    assert values_of(text, "navarch_node_gpu_count") == {(HOSTILE,): 2}
    check = HOSTILE.partition("/")[0]
    assert values_of(text, "navarch_node_health_check_status") == {(HOSTILE, check): 0.5}


def test_no_slice_holds_more_than_a_few_nodes() -> None:
    names = [f"n-{i}" for i in range(3 * SLICE)]
    slices = list(
        fleet_exposition(
            a_fleet(*(a_node(name, gpus=8) for name in names)),
            now=NOW,
            telemetry=a_table(*names),
        )
    )

    assert max(part.count(b"node_gpu_power_watts{") for part in slices) == 2 * SLICE
    assert sum(part.count(b"node_gpu_power_watts{") for part in slices) == 6 * SLICE
