"""Metrics in Prometheus' text format: the server, and the instruments of its parts."""

import gc
from collections.abc import Iterable, Iterator, Sequence

import prometheus_client
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from navarch.core.fleet import Fleet
from navarch.ports.metrics import DURATION_BUCKETS_S, Counter, Gauge, Histogram

YOUNG_MAX = 50_000
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

# Otherwise every counter and histogram has a second series with the time of its creation.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


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

    def collect(self) -> Iterable[Metric]:
        """Return the present values of every instrument."""
        return self._registry.collect()


def server_metrics(fleet: Fleet, heartbeats: int) -> Iterator[Metric]:
    """Yield the store's revision, the received heartbeats, and the pending commands."""
    # A gauge, although it only grows: a counter's name would have to end in _total.
    yield GaugeMetricFamily(
        "navarch_store_revision", "Commits since the store was created.", value=fleet.revision
    )
    yield CounterMetricFamily(
        "navarch_heartbeats_received",
        "Packed heartbeats since the server started.",
        value=heartbeats,
    )
    yield GaugeMetricFamily(
        "navarch_commands_waiting",
        "Commands that are neither done nor expired.",
        value=sum(not command.over for command in fleet.commands.values()),
    )


def render_metrics(metrics: Iterable[Metric]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    return prometheus_client.generate_latest(_Collected(metrics))


def settle_collector() -> None:
    """Collect less often, and exclude the objects that exist now.

    Requests create few cycles, but by default Python searches for them after every few hundred
    objects: with thousands of open connections that takes a fifth of all CPU time. Call this once,
    after start-up and before the first request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 20)


class _Counter:
    def __init__(self, counter: prometheus_client.Counter) -> None:
        self._counter = counter

    def add(self, amount: float = 1.0, **labels: str) -> None:
        (self._counter.labels(**labels) if labels else self._counter).inc(amount)


class _Gauge:
    def __init__(self, gauge: prometheus_client.Gauge) -> None:
        self._gauge = gauge

    def set(self, value: float, **labels: str) -> None:
        (self._gauge.labels(**labels) if labels else self._gauge).set(value)


class _Histogram:
    def __init__(self, histogram: prometheus_client.Histogram) -> None:
        self._histogram = histogram

    def observe(self, value: float, **labels: str) -> None:
        (self._histogram.labels(**labels) if labels else self._histogram).observe(value)


class _Collected:
    """Metrics in the form that the renderer accepts."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
