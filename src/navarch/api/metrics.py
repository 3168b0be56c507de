"""Metrics in Prometheus' text format: the server, and the instruments of its parts."""

import copy
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence

import prometheus_client
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from navarch.core.fleet import Fleet
from navarch.core.version import VERSION
from navarch.ports.metrics import DURATION_BUCKETS_S, Counter, Gauge, Histogram, ReadValues

YOUNG_MAX = 50_000
MIDDLE_MAX = 3
"""Collections of young objects until those that are left are collected together, by the interpreter
as a whole: 250,000 objects take about 80 ms, and a million stopped everything for 300 ms."""
OLD_MAX = 130
"""Collections of those until all objects are collected: after twenty million new ones."""
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

SAMPLES = 256
"""The samples of one slice, which takes about a millisecond."""

# Otherwise every counter and histogram has a second series with the time of its creation.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_PROCESS = prometheus_client.ProcessCollector(registry=None)
"""CPU time, memory, open files and start of this process, under the names that all programs use."""


class PrometheusMetrics:
    """Metrics in a registry of their own."""

    def __init__(self) -> None:
        self._registry = prometheus_client.CollectorRegistry()

    def counter(self, name: str, description: str, *, labels: Sequence[str] = ()) -> Counter:
        """Return a new counter."""
        assert name.endswith("_total"), f"{name}: the name of a counter ends in _total"
        counter = prometheus_client.Counter(name, description, labels, registry=self._registry)
        return _Counter(counter)

    def gauge(self, name: str, description: str, *, labels: Sequence[str] = ()) -> Gauge:
        """Return a new gauge."""
        gauge = prometheus_client.Gauge(name, description, labels, registry=self._registry)
        return _Gauge(gauge)

    def histogram(
        self,
        name: str,
        description: str,
        *,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = DURATION_BUCKETS_S,
    ) -> Histogram:
        """Return a new histogram."""
        histogram = prometheus_client.Histogram(
            name, description, labels, registry=self._registry, buckets=buckets
        )
        return _Histogram(histogram)

    def computed_gauge(
        self, name: str, description: str, read: ReadValues, *, labels: Sequence[str] = ()
    ) -> None:
        """Declare a gauge whose values `read` returns at each scrape."""
        self._registry.register(_ComputedGauge(name, description, read, labels))

    def collect(self) -> Iterable[Metric]:
        """Return the present values of every instrument, each when it is asked for."""
        return self._registry.collect()


def process_metrics() -> Iterator[Metric]:
    """Yield the version and the process."""
    build = GaugeMetricFamily("navarch_build_info", "Always 1.", labels=("version",))
    build.add_metric((VERSION,), 1)
    yield build
    yield from _PROCESS.collect()


def server_metrics(fleet: Fleet, heartbeats: int) -> Iterator[Metric]:
    """Yield the version, the process, the store's revision, heartbeats, and pending commands."""
    yield from process_metrics()
    # A gauge, although it only grows: a counter's name would have to end in _total.
    yield GaugeMetricFamily(
        "navarch_store_revision", "Commits since the store was created.", value=fleet.revision
    )
    yield CounterMetricFamily(
        "navarch_heartbeats_received",
        "Heartbeats accepted since the server started, in every encoding.",
        value=heartbeats,
    )
    yield GaugeMetricFamily(
        "navarch_commands_waiting",
        "Commands that are neither done nor expired.",
        value=sum(not command.over for command in fleet.commands.values()),
    )


def render_metrics(metrics: Iterable[Metric]) -> Iterator[bytes]:
    """Yield the metrics in Prometheus' text format, at most `SAMPLES` samples at a time."""
    for metric in metrics:
        for start in range(0, max(len(metric.samples), 1), SAMPLES):
            part = copy.copy(metric)
            part.samples = metric.samples[start : start + SAMPLES]
            text = prometheus_client.generate_latest(_Collected([part]))
            # The name, the help and the type may stand only once, before the first sample.
            yield text if not start else text.split(b"\n", 2)[2]


def settle_collector() -> None:
    """Collect less often, and exclude the objects that exist now.

    Requests create few cycles, but by default Python searches for them after every few hundred
    objects: with thousands of open connections that takes a fifth of all CPU time. Call this once,
    after start-up and before the first request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLD_MAX)


class _Counter:
    def __init__(self, counter: prometheus_client.Counter) -> None:
        self._counter = counter

    def add(self, amount: float = 1.0, **labels: str) -> None:
        self.bind(**labels)(amount)

    def bind(self, **labels: str) -> Callable[[float], None]:
        return (self._counter.labels(**labels) if labels else self._counter).inc


class _Gauge:
    def __init__(self, gauge: prometheus_client.Gauge) -> None:
        self._gauge = gauge

    def set(self, value: float, **labels: str) -> None:
        (self._gauge.labels(**labels) if labels else self._gauge).set(value)


class _Histogram:
    def __init__(self, histogram: prometheus_client.Histogram) -> None:
        self._histogram = histogram

    def begin(self, **labels: str) -> None:
        self._histogram.labels(**labels)

    def observe(self, value: float, **labels: str) -> None:
        self.bind(**labels)(value)

    def bind(self, **labels: str) -> Callable[[float], None]:
        return (self._histogram.labels(**labels) if labels else self._histogram).observe


class _ComputedGauge:
    """Values that are read at each scrape, in the form that a registry accepts."""

    def __init__(
        self, name: str, description: str, read: ReadValues, labels: Sequence[str]
    ) -> None:
        self._name, self._description = name, description
        self._read = read
        self._labels = labels

    def describe(self) -> Iterable[Metric]:
        """Return the name, so that a registry refuses a second metric of that name."""
        return [GaugeMetricFamily(self._name, self._description)]

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._description, labels=self._labels)
        for values, value in self._read().items():
            assert len(values) == len(self._labels), (self._name, values)
            family.add_metric(values, value)
        return [family]


class _Collected:
    """Metrics in the form that the renderer accepts."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
