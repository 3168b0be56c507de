"""Metrics of the calls that clients and agents make."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

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
        self._methods: dict[tuple[str, str], MethodMetrics] = {}

    def method(self, protocol: str, method: str) -> "MethodMetrics":
        """Return what measures the calls of one method.

        Its series begin at once: one that begins at one hides its first increase.
        """
        known = self._methods.get((protocol, method))
        if known is None:
            labels = {"protocol": protocol, "method": method}
            known = self._methods[protocol, method] = MethodMetrics(
                self._clock,
                succeed=self._results.bind(**labels, result="ok"),
                fail=partial(self._results.add, protocol=protocol, method=method),
                observe=self._durations.bind(**labels),
            )
        return known

    def measure(self, protocol: str, method: str) -> AbstractContextManager[None]:
        """Measure one call."""
        return self.method(protocol, method).measure()


class MethodMetrics:
    """Measures the calls of one method."""

    def __init__(
        self,
        clock: Clock,
        *,
        succeed: Callable[[float], None],
        fail: Callable[..., None],
        observe: Callable[[float], None],
    ) -> None:
        fail(0, result=INTERNAL.name)
        self._clock = clock
        self._succeed = succeed
        self._fail = fail
        self._observe = observe

    def measure(self) -> "_Measured":
        """Measure one call."""
        return _Measured(self)

    def now_s(self) -> float:
        """Return the time by which calls are measured."""
        return self._clock.monotonic()

    def count(self, seconds: float, error: BaseException | None) -> None:
        """Record a call that took so long, and how it ended."""
        self._observe(seconds)
        if error is None:
            self._succeed(1.0)
        elif not isinstance(error, Exception):
            self._fail(result="canceled")
        else:
            code = error.code if isinstance(error, Refusal) else code_of(error).name
            self._fail(result=code)


class _Measured:
    """One call that is measured. Much cheaper than a generator: each heartbeat is a call."""

    __slots__ = ("_began_s", "_method")

    def __init__(self, method: MethodMetrics) -> None:
        self._method = method

    def __enter__(self) -> None:
        self._began_s = self._method.now_s()

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        self._method.count(self._method.now_s() - self._began_s, error)
