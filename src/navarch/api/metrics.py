"""The fleet as Prometheus sees it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from navarch.core.health import Health
from navarch.core.node import NodeStatus
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, NodeView, Query

UNKNOWN = "unknown"
_HEALTH_VALUES = {
    Health.HEALTHY: "1",
    Health.DEGRADED: "0.5",
    Health.UNHEALTHY: "0",
    Health.UNKNOWN: "0",
}


async def fleet_metrics(fleet: FleetApi) -> str:
    """Return the gauges of every node that is not gone."""
    query = Query(page_size=PAGE_SIZE_MAX)
    nodes: list[NodeView] = []
    while True:
        page = await fleet.list_nodes(query)
        nodes += page.items
        if not page.next_page_token:
            return render_metrics(nodes)
        query = replace(query, page_token=page.next_page_token)


def render_metrics(nodes: Iterable[NodeView]) -> str:
    """Return the gauges in Prometheus' text format."""
    statuses = Counter[str](dict.fromkeys([*map(str, NodeStatus), UNKNOWN], 0))
    gpus: Counter[str] = Counter()
    health = []
    for node in nodes:
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
