"""How busy pools are, as a Prometheus server says when it is asked."""

import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from navarch.core.errors import MetricsError
from navarch.core.ids import PoolName
from navarch.ports.autoscaler import PoolMetrics
from navarch.ports.offload import Offload

ANSWER_MAX = 1_048_576

POOL = "$pool"
"""Stands in a query for the pool's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusQueries:
    """Where to ask, and what. What is empty is not asked.

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
    """Asks an instant query for each metric."""

    def __init__(self, offload: Offload, queries: PrometheusQueries) -> None:
        self._offload = offload
        self._queries = queries

    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        """Return what the queries give. Raises MetricsError if one of them does not."""
        return await self._offload.run(lambda: self._ask_all(pool))

    def _ask_all(self, pool: PoolName) -> PoolMetrics:
        queries = self._queries
        return PoolMetrics(
            utilization=self._ask(queries.utilization, pool),
            pending_jobs=math.ceil(self._ask(queries.pending_jobs, pool)),
            queue_depth=math.ceil(self._ask(queries.queue_depth, pool)),
            nodes_needed=math.ceil(self._ask(queries.nodes_needed, pool)),
        )

    def _ask(self, query: str, pool: PoolName) -> float:
        if not query:
            return 0.0
        text = query.replace(POOL, pool)
        base = self._queries.url.rstrip("/")
        url = f"{base}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        return parse_answer(self._send(urllib.request.Request(url)), text)

    def _send(self, request: urllib.request.Request) -> bytes:
        for name, value in self._queries.headers.items():
            request.add_header(name, value)
        timeout = self._queries.timeout.total_seconds()
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                body: bytes = answer.read(ANSWER_MAX)
                return body
        except urllib.error.HTTPError as error:
            # Prometheus explains a query that it does not understand in the body.
            return error.read(ANSWER_MAX)
        except (OSError, ValueError) as error:
            raise MetricsError(f"prometheus: {error}") from error


def parse_answer(body: bytes, query: str) -> float:
    """Return the one number that Prometheus has answered `query` with.

    No series at all is an answer that nobody gave: a misspelt name, a scrape that fails. It must
    not pass for zero; a query that may find nothing says so with `or vector(0)`.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.MsgspecError as error:
        raise MetricsError(f"prometheus: no answer to {query}: {body[:200]!r}") from error
    if answer.status != "success" or answer.data is None:
        raise MetricsError(f"prometheus: {query}: {answer.error or answer.status}")
    values = _values(answer.data, query)
    if len(values) != 1:
        remedy = "add `or vector(0)`" if not values else "aggregate them, as with sum(...)"
        raise MetricsError(f"prometheus: {query}: {len(values)} series, not one; {remedy}")
    return _number(values[0], query)


def _values(data: "_Data", query: str) -> list[str]:
    try:
        if data.result_type == "scalar":
            return [msgspec.convert(data.result, tuple[float, str])[1]]
        if data.result_type == "vector":
            return [each.value[1] for each in msgspec.convert(data.result, list[_Series])]
    except msgspec.ValidationError as error:
        raise MetricsError(f"prometheus: {query}: {error}") from error
    raise MetricsError(f"prometheus: {query}: gives a {data.result_type}, not a number")


def _number(text: str, query: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise MetricsError(f"prometheus: {query}: {text} is no amount")
    return value


class _Series(msgspec.Struct):
    value: tuple[float, str]


class _Data(msgspec.Struct, rename={"result_type": "resultType"}):
    result_type: str
    result: list[object]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""
