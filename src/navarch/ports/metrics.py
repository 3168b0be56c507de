"""Instruments that the control plane measures itself with.

A controller declares its instruments once and records with labels:

    runs = metrics.counter(
        "navarch_controller_runs_total", "Runs by result.", labels=("controller", "result")
    )
    runs.add(controller="inventory", result="ok")

A state that exists anyway is a computed gauge, read when the metrics are scraped:

    metrics.computed_gauge("navarch_spool_bytes", "Bytes in the spool.", lambda: {(): spool.size})
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

DURATION_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)
"""From a round of a controller to the longest call to a provider."""


class Counter(Protocol):
    """A number that only grows."""

    def add(self, amount: float = 1.0, **labels: str) -> None:
        """Increase the value for these labels."""

    def bind(self, **labels: str) -> Callable[[float], None]:
        """Return what increases the value for these labels, without looking them up each time."""


class Gauge(Protocol):
    """A number that goes up and down."""

    def set(self, value: float, **labels: str) -> None:
        """Set the value for these labels."""


class Histogram(Protocol):
    """A distribution of observed values."""

    def begin(self, **labels: str) -> None:
        """Begin the series for these labels at zero.

        Prometheus sees no increase in the first value of a series that begins with it.
        """

    def observe(self, value: float, **labels: str) -> None:
        """Record one value for these labels."""

    def bind(self, **labels: str) -> Callable[[float], None]:
        """Return what records a value for these labels, without looking them up each time."""


ReadValues = Callable[[], Mapping[tuple[str, ...], float]]
"""Returns the present values, by the values of the labels in their order."""


class Metrics(Protocol):
    """Creates instruments. A name is declared once; a counter's name ends in `_total`."""

    def counter(self, name: str, description: str, *, labels: Sequence[str] = ()) -> Counter:
        """Return a new counter."""

    def gauge(self, name: str, description: str, *, labels: Sequence[str] = ()) -> Gauge:
        """Return a new gauge."""

    def histogram(
        self,
        name: str,
        description: str,
        *,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = DURATION_BUCKETS_S,
    ) -> Histogram:
        """Return a new histogram."""

    def computed_gauge(
        self, name: str, description: str, read: ReadValues, *, labels: Sequence[str] = ()
    ) -> None:
        """Declare a gauge whose values `read` returns at each scrape.

        Unlike a gauge it forgets a pool or a budget that no longer exists. `read` must be fast: it
        runs in the event loop, and heartbeats wait for it.
        """


class NoMetrics:
    """Metrics that record nothing, for the simulator and for tools."""

    def counter(self, *_texts: str, **_options: Sequence[object]) -> "_NoInstrument":
        """Return an instrument without effect."""
        return _NO_INSTRUMENT

    gauge = histogram = counter

    def computed_gauge(self, *_texts: object, **_options: object) -> None:
        """Declare nothing."""


class _NoInstrument:
    def add(self, amount: float = 1.0, **labels: str) -> None:
        pass

    def set(self, value: float, **labels: str) -> None:
        pass

    def observe(self, value: float, **labels: str) -> None:
        pass

    def begin(self, **labels: str) -> None:
        pass

    def bind(self, **labels: str) -> Callable[[float], None]:  # noqa: ARG002
        return self.observe


_NO_INSTRUMENT = _NoInstrument()
