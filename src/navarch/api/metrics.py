"""The fleet as Prometheus sees it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus, node_status
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, Query

UNKNOWN = "unknown"
_HEALTH_VALUES = {
    Health.HEALTHY: "1",
    Health.DEGRADED: "0.5",
    Health.UNHEALTHY: "0",
    Health.UNKNOWN: "0",
}


@dataclass(frozen=True, slots=True)
class NodeGauge:
    """What is counted of one node."""

    id: NodeId
    status: NodeStatus | None
    health: Health
    provider: str
    gpus: int


def gauges_of(fleet: Fleet) -> Iterator[NodeGauge]:
    """Yield every node that is not gone. Quick: a scrape must not hold up ten thousand agents."""
    for node in fleet.nodes.values():
        if node.gone:
            continue
        gpus = node.gpus
        if gpus is None:
            gpus = node.place.gpus if node.place else 0
        yield NodeGauge(node.id, node_status(node), node.health, node.provider or "", gpus)


async def ask_for_gauges(fleet: FleetApi) -> list[NodeGauge]:
    """Return every node that is not gone, page by page: for a fleet that is somewhere else."""
    query = Query(page_size=PAGE_SIZE_MAX)
    gauges: list[NodeGauge] = []
    while True:
        page = await fleet.list_nodes(query)
        gauges += [NodeGauge(n.id, n.status, n.health, n.provider, n.gpus) for n in page.items]
        if not page.next_page_token:
            return gauges
        query = replace(query, page_token=page.next_page_token)


def render_metrics(gauges: Iterable[NodeGauge]) -> str:
    """Return the gauges in Prometheus' text format."""
    statuses = Counter[str](dict.fromkeys([*map(str, NodeStatus), UNKNOWN], 0))
    gpus: Counter[str] = Counter()
    health = []
    for node in gauges:
        statuses[node.status or UNKNOWN] += 1
        gpus[node.provider or UNKNOWN] += node.gpus
        labels = f'node_id="{_escaped(node.id)}",status="{node.health}"'
        health.append(f"navarch_node_health_status{{{labels}}} {_HEALTH_VALUES[node.health]}")
    lines = [
        "# HELP navarch_nodes_total Nodes by status.",
        "# TYPE navarch_nodes_total gauge",
        *(f'navarch_nodes_total{{status="{word}"}} {n}' for word, n in sorted(statuses.items())),
        "# HELP navarch_gpus_total GPUs by provider.",
        "# TYPE navarch_gpus_total gauge",
        *(f'navarch_gpus_total{{provider="{_escaped(p)}"}} {n}' for p, n in sorted(gpus.items())),
        "# HELP navarch_node_health_status 1 healthy, 0.5 degraded, 0 unhealthy or unknown.",
        "# TYPE navarch_node_health_status gauge",
        *health,
    ]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
