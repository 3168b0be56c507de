"""The fleet in Prometheus' text format, in slices: 400,000 series must delay no heartbeat."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Protocol, TypeVar

from prometheus_client.metrics_core import Metric

from navarch.api.fleet_counts import NO_POOL, FleetCounts
from navarch.api.metrics import render_metrics
from navarch.core.fleet import Fleet
from navarch.core.health import SEVERITY, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Reading
from navarch.core.node import Node, Phase

SLICE = 128
"""The nodes of one slice, which takes about a millisecond."""

CHECKS_MAX = 32
"""The most checks of one node, and below the longest name of a check: agents name them freely."""
CHECK_LENGTH_MAX = 64

_HEALTH_VALUES = {
    Health.HEALTHY: 1.0,
    Health.DEGRADED: 0.5,
    Health.UNHEALTHY: 0.0,
    Health.UNKNOWN: 0.0,
}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

T = TypeVar("T")


class Telemetry(Protocol):
    """The last heartbeat of every node, and the last readings of every GPU."""

    def heartbeat_times(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return when each node last sent a heartbeat, in seconds since 1970; None if unknown."""

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
    fleet: Fleet,
    *,
    now: datetime,
    others: Iterable[Metric] = (),
    telemetry: Telemetry | None = None,
    per_gpu: bool = True,
    spent: Mapping[PoolName, Decimal] | None = None,
) -> Iterator[bytes]:
    """Yield the metrics of `fleet` and then `others`, a slice at a time; some slices are empty.

    `spent` is what machines without nodes have cost each pool this month, if that is known.
    """
    nodes = [node for node in fleet.nodes.values() if not node.gone]
    slices = list(_parts(nodes))
    counts = FleetCounts(fleet, now, spent=spent)
    for part in slices:
        counts.add_nodes(part)
        yield b""
    for incidents in _parts(list(fleet.incidents.values())):
        counts.add_incidents(incidents)
        yield b""
    for jobs in _parts(list(fleet.jobs.values())):
        counts.add_jobs(jobs)
        yield b""
    yield from render_metrics(chain(counts.metrics(), others))
    for family in _NODE_FAMILIES:
        yield _head(family.name, family.help)
        for part in slices:
            yield _node_lines(family, part)
    if telemetry is None:
        return
    yield _head(_HEARTBEAT, "When a node that should report last did, as seconds since 1970.")
    for part in slices:
        yield _heartbeat_lines(part, telemetry)
    if not per_gpu:
        return
    for gauge in _GPU_FAMILIES:
        yield _head(gauge.name, gauge.help)
        for part in slices:
            yield _gpu_lines(gauge, part, telemetry)


def _parts(records: Sequence[T]) -> Iterator[Sequence[T]]:
    return (records[i : i + SLICE] for i in range(0, len(records), SLICE))


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


def _gpu_lines(family: _GpuFamily, nodes: Iterable[Node], telemetry: Telemetry) -> bytes:
    names = [node.id for node in nodes]
    lines: list[str] = []
    for name, values in zip(names, telemetry.gpu_readings(names, family.reading), strict=True):
        start = f'{family.name}{{node_id="{_escaped(name)}",gpu="'
        lines += [f'{start}{i}"}} {value:{family.form}}\n' for i, value in enumerate(values)]
    return "".join(lines).encode(errors="replace")


def _heartbeat_lines(nodes: Iterable[Node], telemetry: Telemetry) -> bytes:
    """Return the last heartbeats, without nodes whose machine starts or is terminated."""
    names = [node.id for node in nodes if node.phase in (Phase.READY, Phase.DRAINING)]
    times = zip(names, telemetry.heartbeat_times(names), strict=True)
    lines = [
        f'{_HEARTBEAT}{{node_id="{_escaped(name)}"}} {at:.3f}\n'
        for name, at in times
        if at is not None
    ]
    return "".join(lines).encode(errors="replace")


def _health_line(node: Node, start: str) -> Iterator[str]:
    yield f'{start},status="{node.health}"}} {_HEALTH_VALUES[node.health]}\n'


def _info_line(node: Node, start: str) -> Iterator[str]:
    place = node.place
    labels = {
        "pool": node.pool or NO_POOL,
        "provider": place.provider if place else "",
        "instance_type": place.instance_type if place else "",
        "region": place.region if place else "",
        "zone": place.zone if place else "",
    }
    pairs = "".join(f',{name}="{_escaped(value)}"' for name, value in labels.items())
    yield f"{start}{pairs}}} 1\n"


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


_HEARTBEAT = "navarch_node_last_heartbeat_timestamp_seconds"
_NODE_FAMILIES = (
    _NodeFamily(
        name="navarch_node_info",
        help="Always 1: the pool, kind and place of a node as labels.",
        lines=_info_line,
    ),
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
