"""Metrics of the calls that clients and agents make."""

from collections.abc import Iterator
from contextlib import contextmanager

from navarch.api.http.exchange import Refusal
from navarch.api.large_requests import Turnstile
from navarch.api.logins import FailedLogins
from navarch.ports.clock import Clock
from navarch.ports.metrics import Metrics
from navarch.wire.fleet import INTERNAL, code_of

HTTP = "http"
CONNECT = "connect"
GRPC = "grpc"

CALL_BUCKETS_S = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""From a read of the fleet in memory to the time limit of a call."""


class ApiMetrics:
    """Measures calls by protocol and method."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self.logins = FailedLogins(clock, metrics)
        self.large = Turnstile(clock)
        for protocol in (HTTP, GRPC):
            self.logins.begin(protocol)
        self._results = metrics.counter(
            "navarch_api_calls_total",
            "Calls by protocol, method and result: ok, canceled, or the code of the error.",
            labels=("protocol", "method", "result"),
        )
        self._durations = metrics.histogram(
            "navarch_api_call_seconds",
            "Duration of a call.",
            labels=("protocol", "method"),
            buckets=CALL_BUCKETS_S,
        )

    def begin(self, protocol: str, method: str) -> None:
        """Begin the series of a method: one that begins at one hides its first increase."""
        for result in ("ok", INTERNAL.name):
            self._results.add(0, protocol=protocol, method=method, result=result)
        self._durations.begin(protocol=protocol, method=method)

    @contextmanager
    def measure(self, protocol: str, method: str) -> Iterator[None]:
        """Measure one call."""
        began, result = self._clock.monotonic(), "canceled"
        try:
            yield
            result = "ok"
        except Exception as error:
            result = error.code if isinstance(error, Refusal) else code_of(error).name
            raise
        finally:
            took_s = self._clock.monotonic() - began
            self._results.add(protocol=protocol, method=method, result=result)
            self._durations.observe(took_s, protocol=protocol, method=method)
