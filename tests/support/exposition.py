"""Metrics as Prometheus receives them, for tests."""

from datetime import timedelta

from prometheus_client.parser import text_string_to_metric_families

from navarch.clock import SystemClock
from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.stores.telemetry import TelemetryTable


def a_table(*names: str) -> TelemetryTable:
    """Return a table with readings of two GPUs of each node."""
    table = TelemetryTable(SystemClock(), timeout=timedelta(seconds=90))
    hot = GpuMetrics(temperature_c=65.3, power_w=700, utilization_pct=99, memory_used_bytes=2**36)
    for name in names:
        table.record_heartbeat(NodeId(name), NodeMetrics(gpus=(hot, GpuMetrics(temperature_c=20))))
    return table


def values_of(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of the metric `name` by its labels' values, which must be unique."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                labels = tuple(sample.labels.values())
                assert labels not in found, labels
                found[labels] = sample.value
    return found
