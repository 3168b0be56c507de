"""Metrics: who else knows how busy pools are, besides the agents."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from navarch.config.kinds import DURATION, HEADER, URL, MapOf, Text
from navarch.config.nesting import Nested
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret

QUERY = Text(noun="a PromQL query", example='sum(jobs{pool="$pool"})')


def _something_asked(
    utilization: str | None,
    pending_jobs: str | None,
    queue_depth: str | None,
    nodes_needed: str | None,
) -> Iterator[Fault]:
    if not (utilization or pending_jobs or queue_depth or nodes_needed):
        yield Fault(
            message="nothing is asked of Prometheus",
            remedy='add a query, such as queue_depth: sum(jobs{pool="$pool"})',
        )


@block(rules=(_something_asked,))
class PrometheusConfig:
    """A Prometheus server that is asked at every look; `$pool` is the pool's name."""

    url: str = key(URL, doc="where it is, such as `http://prometheus:9090`")
    utilization: str | None = key(
        QUERY, default=None, doc="GPU utilization in percent, in place of what agents say"
    )
    pending_jobs: str | None = key(QUERY, default=None, doc="how many jobs wait")
    queue_depth: str | None = key(QUERY, default=None, doc="how many jobs wait or run")
    nodes_needed: str | None = key(
        QUERY, default=None, doc="how many nodes the work needs; the pool is never made smaller"
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=10), doc="how long an answer may take"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="sent with every query"
    )


@block()
class MetricsConfig:
    """Who is asked how busy pools are, before the agents' heartbeats."""

    prometheus: PrometheusConfig | None = key(
        Nested(cls=PrometheusConfig),
        default=None,
        doc="a Prometheus server",
        restart="sources are opened once, when the server starts",
    )
