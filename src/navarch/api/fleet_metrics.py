"""The fleet in Prometheus' text format, in slices: 400,000 series must delay no heartbeat."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from navarch.api.metrics import render_metrics
from navarch.core.fleet import Fleet
from navarch.core.health import SEVERITY, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Reading
from navarch.core.node import Node, NodeStatus, node_status

SLICE = 128
"""The nodes of one slice, which takes about a millisecond."""

CHECKS_MAX = 32
"""The most checks of one node, and below the longest name of a check: agents name them freely."""
CHECK_LENGTH_MAX = 64

UNKNOWN = "unknown"
_HEALTH_VALUES = {
    Health.HEALTHY: 1.0,
    Health.DEGRADED: 0.5,
    Health.UNHEALTHY: 0.0,
    Health.UNKNOWN: 0.0,
}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class GpuReadings(Protocol):
    """The last readings of every GPU."""

    def gpu_readings(self, nodes: Sequence[NodeId], reading: Reading) -> Sequence[Sequence[float]]:
        """Return the values of each node, one per GPU; none for a node that is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeFamily:
    """A gauge of each node."""

    name: str
    help: str
    lines: Callable[[Node, str], Iterator[str]]
    """Returns the labels after the node's name, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuFamily:
    """A gauge of each GPU."""

    name: str
    help: str
    reading: Reading
    form: str = ".7g"
    """All the digits of a reading, which has 32 bits."""


def fleet_exposition(
    fleet: Fleet, *, others: Iterable[Metric] = (), readings: GpuReadings | None = None
) -> Iterator[bytes]:
    """Yield the metrics of `fleet` and then `others`, a slice at a time; some slices are empty.

    Without `readings` there are no metrics of single GPUs.
    """
    nodes = [node for node in fleet.nodes.values() if not node.gone]
    slices = [nodes[i : i + SLICE] for i in range(0, len(nodes), SLICE)]
    counts = _Counts()
    for part in slices:
        counts.add(part)
        yield b""
    yield render_metrics(chain(counts.metrics(), others))
    for family in _NODE_FAMILIES:
        yield _head(family.name, family.help)
        for part in slices:
            yield _node_lines(family, part)
    if readings is None:
        return
    for gauge in _GPU_FAMILIES:
        yield _head(gauge.name, gauge.help)
        for part in slices:
            yield _gpu_lines(gauge, part, readings)


class _Counts:
    """Nodes and GPUs, counted slice by slice."""

    def __init__(self) -> None:
        self._statuses = Tally[str](dict.fromkeys([*map(str, NodeStatus), UNKNOWN], 0))
        self._gpus: Tally[str] = Tally()
        self._health: Tally[Health] = Tally()

    def add(self, nodes: Iterable[Node]) -> None:
        """Count `nodes`."""
        for node in nodes:
            self._statuses[node_status(node) or UNKNOWN] += 1
            placed = node.place.gpus if node.place else 0
            self._gpus[node.provider or UNKNOWN] += placed if node.gpus is None else node.gpus
            self._health[node.health] += 1

    def metrics(self) -> Iterator[Metric]:
        """Yield the counts."""
        yield _tally("navarch_nodes_total", "Nodes by status.", "status", self._statuses)
        yield _tally("navarch_gpus_total", "GPUs by provider.", "provider", self._gpus)
        for health in (Health.HEALTHY, Health.UNHEALTHY):
            yield GaugeMetricFamily(
                f"navarch_nodes_{health}", f"Nodes that are {health}.", value=self._health[health]
            )


def _tally(name: str, description: str, label: str, counts: Tally[str]) -> Metric:
    family = GaugeMetricFamily(name, description, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), count)
    return family


def _escaped(value: str) -> str:
    """Return a label's value for the text between quotes: agents choose names and checks."""
    return value.translate(_ESCAPES)


def _head(name: str, description: str) -> bytes:
    return f"# HELP {name} {description}\n# TYPE {name} gauge\n".encode()


def _node_lines(family: _NodeFamily, nodes: Iterable[Node]) -> bytes:
    lines: list[str] = []
    for node in nodes:
        lines += family.lines(node, f'{family.name}{{node_id="{_escaped(node.id)}"')
    return "".join(lines).encode(errors="replace")


def _gpu_lines(family: _GpuFamily, nodes: Iterable[Node], readings: GpuReadings) -> bytes:
    names = [node.id for node in nodes]
    lines: list[str] = []
    for name, values in zip(names, readings.gpu_readings(names, family.reading), strict=True):
        start = f'{family.name}{{node_id="{_escaped(name)}",gpu="'
        lines += [f'{start}{i}"}} {value:{family.form}}\n' for i, value in enumerate(values)]
    return "".join(lines).encode(errors="replace")


def _health_line(node: Node, start: str) -> Iterator[str]:
    yield f'{start},status="{node.health}"}} {_HEALTH_VALUES[node.health]}\n'


def _count_line(node: Node, start: str) -> Iterator[str]:
    if node.gpus is not None:
        yield f"{start}}} {node.gpus}\n"


def _check_lines(node: Node, start: str) -> Iterator[str]:
    """Yield the worst result of each check that has found a fault, the worst checks first.

    The part of a name after the slash is left out: it names one error of one GPU.
    """
    worst: dict[str, Health] = {}
    for condition in sorted(node.conditions, key=lambda each: -SEVERITY[each.health]):
        worst.setdefault(condition.check.partition("/")[0][:CHECK_LENGTH_MAX], condition.health)
    for check, health in list(worst.items())[:CHECKS_MAX]:
        yield f'{start},check="{_escaped(check)}"}} {_HEALTH_VALUES[health]}\n'


_NODE_FAMILIES = (
    _NodeFamily(
        name="navarch_node_health_status",
        help="1 healthy, 0.5 degraded, 0 unhealthy or unknown.",
        lines=_health_line,
    ),
    _NodeFamily(
        name="navarch_node_health_check_status",
        help="Checks with a fault: 0.5 degraded, 0 unhealthy or unknown.",
        lines=_check_lines,
    ),
    _NodeFamily(
        name="navarch_node_gpu_count", help="GPUs that the agent found.", lines=_count_line
    ),
)
_GPU_FAMILIES = (
    _GpuFamily(
        name="navarch_node_gpu_temperature_celsius",
        help="Temperature of a GPU.",
        reading=Reading.TEMPERATURE_C,
    ),
    _GpuFamily(
        name="navarch_node_gpu_utilization_percent",
        help="Utilization of a GPU.",
        reading=Reading.UTILIZATION_PCT,
    ),
    _GpuFamily(
        name="navarch_node_gpu_memory_used_bytes",
        help="Used memory of a GPU.",
        reading=Reading.MEMORY_USED_BYTES,
        form=".0f",
    ),
    _GpuFamily(
        name="navarch_node_gpu_power_watts", help="Power of a GPU.", reading=Reading.POWER_W
    ),
)
