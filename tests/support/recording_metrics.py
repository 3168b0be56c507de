"""Metrics that keep every value, to compare them with what a test expects."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from navarch.ports.metrics import DURATION_BUCKETS_S, Counter, Gauge, Histogram, ReadValues

Labels = tuple[tuple[str, str], ...]


class RecordingMetrics:
    """Metrics that keep every value, and check names and labels as Prometheus does."""

    def __init__(self) -> None:
        self._instruments: dict[str, _Instrument] = {}

    def counter(self, name: str, _description: str, *, labels: Sequence[str] = ()) -> Counter:
        """Return a new counter."""
        assert name.endswith("_total"), f"{name}: the name of a counter ends in _total"
        return self._new(name, "counter", labels)

    def gauge(self, name: str, _description: str, *, labels: Sequence[str] = ()) -> Gauge:
        """Return a new gauge."""
        return self._new(name, "gauge", labels)

    def histogram(
        self,
        name: str,
        _description: str,
        *,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = DURATION_BUCKETS_S,
    ) -> Histogram:
        """Return a new histogram."""
        assert list(buckets) == sorted(buckets), f"{name}: the buckets are not in order"
        return self._new(name, "histogram", labels)

    def computed_gauge(
        self, name: str, _description: str, read: ReadValues, *, labels: Sequence[str] = ()
    ) -> None:
        """Declare a gauge whose values `read` returns."""
        self._new(name, "gauge", labels).read = read

    def value(self, name: str, /, **labels: str) -> float:
        """Return the value of a counter or a gauge; zero if it was never recorded."""
        instrument = self._instruments[name]
        if instrument.read is None:
            return instrument.values[_key(labels)]
        return instrument.read().get(tuple(labels[label] for label in instrument.labels), 0.0)

    def declared(self) -> Mapping[str, tuple[str, Sequence[str]]]:
        """Return the kind and the labels of each instrument."""
        return {name: (each.kind, each.labels) for name, each in self._instruments.items()}

    def observations(self, name: str, **labels: str) -> Sequence[float]:
        """Return every value of a histogram, in order."""
        return tuple(self._instruments[name].observed[_key(labels)])

    def series(self, name: str) -> int:
        """Return how many combinations of labels have a value other than zero."""
        return sum(map(bool, self._instruments[name].values.values()))

    def names(self) -> Sequence[str]:
        """Return the name of every instrument."""
        return sorted(self._instruments)

    def _new(self, name: str, kind: str, labels: Sequence[str]) -> "_Instrument":
        assert name not in self._instruments, f"{name} is declared twice"
        instrument = self._instruments[name] = _Instrument(name, kind, labels)
        return instrument


class _Instrument:
    def __init__(self, name: str, kind: str, labels: Sequence[str]) -> None:
        self._name = name
        self.kind = kind
        self.labels = tuple(labels)
        self.read: ReadValues | None = None
        self.values: defaultdict[Labels, float] = defaultdict(float)
        self.observed: defaultdict[Labels, list[float]] = defaultdict(list)

    def add(self, amount: float = 1.0, **labels: str) -> None:
        assert amount >= 0, f"{self._name}: a counter only grows"
        self.values[self._checked(labels)] += amount

    def set(self, value: float, **labels: str) -> None:
        self.values[self._checked(labels)] = value

    def observe(self, value: float, **labels: str) -> None:
        self.observed[self._checked(labels)].append(value)

    def begin(self, **labels: str) -> None:
        self._checked(labels)

    def bind(self, **labels: str) -> Callable[[float], None]:
        self._checked(labels)
        record = self.add if self.kind == "counter" else self.observe
        return lambda value: record(value, **labels)

    def _checked(self, labels: dict[str, str]) -> Labels:
        assert labels.keys() == {*self.labels}, f"{self._name} has the labels {self.labels}"
        return _key(labels)


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))
