"""Where a server learns how busy its fleet is."""

from collections.abc import Iterator
from contextlib import ExitStack

from navarch.app.extensions import Extensions
from navarch.clock.system import ThreadOffload
from navarch.config.server import PrometheusConfig
from navarch.meters.heartbeats import HeartbeatMeter
from navarch.meters.jobs import JobsMeter
from navarch.meters.merged import Merged
from navarch.meters.prometheus import PrometheusMeter, PrometheusQueries
from navarch.ports.autoscaler import MetricsSource
from navarch.service.job_queue import JobQueue
from navarch.stores.sqlite import SqliteStore
from navarch.stores.telemetry import TelemetryTable


def build_meter(
    store: SqliteStore,
    columns: TelemetryTable,
    prometheus: PrometheusConfig | None,
    extensions: Extensions,
    closing: ExitStack,
) -> MetricsSource:
    """Return every source as one; those of others go before our own."""
    return Merged(
        [
            *extensions.metrics_sources,
            *_configured(prometheus, closing),
            JobsMeter(store, JobQueue(store)),
            HeartbeatMeter(store, columns),
        ]
    )


def _configured(asked: PrometheusConfig | None, closing: ExitStack) -> Iterator[MetricsSource]:
    if asked is not None:
        threads = ThreadOffload("navarch-prometheus")
        closing.callback(threads.close)
        yield PrometheusMeter(threads, _queries(asked))


def _queries(config: PrometheusConfig) -> PrometheusQueries:
    return PrometheusQueries(
        url=config.url,
        utilization=config.utilization or "",
        pending_jobs=config.pending_jobs or "",
        queue_depth=config.queue_depth or "",
        nodes_needed=config.nodes_needed or "",
        timeout=config.timeout,
        headers={name: value.reveal() for name, value in config.headers.items()},
    )
