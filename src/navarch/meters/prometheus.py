"""The load of pools, from queries to a Prometheus server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from urllib.parse import urlencode

import msgspec

from navarch.core.errors import MetricsError
from navarch.core.ids import PoolName
from navarch.http.blocking import request
from navarch.http.message import HttpError
from navarch.ports.autoscaler import PoolMetrics
from navarch.ports.clock import Offload

RESPONSE_BYTES_MAX = 1_048_576

POOL = "$pool"
"""The placeholder for the pool's name in a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusQueries:
    """The server, and the query for each metric; empty for a metric that is not measured.

    A query gives one number for the pool: `avg(DCGM_FI_DEV_GPU_UTIL{pool="$pool"})`.
    """

    url: str
    utilization: str = ""
    pending_jobs: str = ""
    queue_depth: str = ""
    nodes_needed: str = ""
    timeout: timedelta = timedelta(seconds=10)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class PrometheusMeter:
    """Runs an instant query for each metric."""

    def __init__(self, offload: Offload, queries: PrometheusQueries) -> None:
        self._offload = offload
        self._queries = queries

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return the results of the queries; raise MetricsError if one of them fails."""
        return await self._offload.run(partial(self._query_all, pool))

    def _query_all(self, pool: PoolName) -> PoolMetrics:
        queries = self._queries
        return PoolMetrics(
            utilization=self._query(queries.utilization, pool),
            pending_jobs=math.ceil(self._query(queries.pending_jobs, pool)),
            queue_depth=math.ceil(self._query(queries.queue_depth, pool)),
            nodes_needed=math.ceil(self._query(queries.nodes_needed, pool)),
        )

    def _query(self, query: str, pool: PoolName) -> float:
        if not query:
            return 0.0
        text = query.replace(POOL, pool)
        base = self._queries.url.rstrip("/")
        try:
            response = request(
                "GET",
                f"{base}/api/v1/query?{urlencode({'query': text})}",
                headers={"User-Agent": "navarch", **self._queries.headers},
                timeout_s=self._queries.timeout.total_seconds(),
                body_bytes_max=RESPONSE_BYTES_MAX,
                use_proxy=True,
            )
        except HttpError as error:
            raise MetricsError(f"prometheus: {error}") from error
        if 300 <= response.status < 400:
            location = response.headers.get("location", "another URL")
            raise MetricsError(f"prometheus: {self._queries.url} has moved to {location}")
        # The body of an error response explains what is wrong with the query.
        return parse_response(response.body, text)


def parse_response(body: bytes, query: str) -> float:
    """Return the one number in the response to `query`.

    An empty result is an error and not zero: it also comes from a misspelt name or a failing
    scrape. A query for which no series is normal ends with `or vector(0)`.
    """
    try:
        response = msgspec.json.decode(body, type=_QueryResponse)
    except msgspec.MsgspecError as error:
        raise MetricsError(f"prometheus: no result for {query}: {body[:200]!r}") from error
    if response.status != "success" or response.data is None:
        raise MetricsError(f"prometheus: {query}: {response.error or response.status}")
    values = _values(response.data, query)
    if len(values) != 1:
        remedy = "add `or vector(0)`" if not values else "aggregate them, as with sum(...)"
        raise MetricsError(f"prometheus: {query}: {len(values)} series, not one; {remedy}")
    try:
        value = float(values[0])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise MetricsError(f"prometheus: {query}: {values[0]} is not a valid amount")
    return value


def _values(data: "_Data", query: str) -> list[str]:
    try:
        if data.result_type == "scalar":
            return [msgspec.convert(data.result, tuple[float, str])[1]]
        if data.result_type == "vector":
            return [each.value[1] for each in msgspec.convert(data.result, list[_Series])]
    except msgspec.ValidationError as error:
        raise MetricsError(f"prometheus: {query}: {error}") from error
    raise MetricsError(f"prometheus: {query}: returns a {data.result_type}, not a number")


class _Series(msgspec.Struct):
    value: tuple[float, str]


class _Data(msgspec.Struct, rename={"result_type": "resultType"}):
    result_type: str
    result: list[object]


class _QueryResponse(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
