"""The health of the fleet, on one screen."""

from dataclasses import replace

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import age, bold, count
from navarch.cli.render.table import Column, render_table
from navarch.core.health import Health
from navarch.ports.fleet_health import (
    FailureRate,
    FleetHealth,
    GpuWarning,
    LemonView,
    PoolHealth,
)

POOLS = (
    Column(name="Pool"),
    Column(name="Nodes"),
    Column(name="Healthy"),
    Column(name="Degraded", rank=2),
    Column(name="Unhealthy"),
    Column(name="Incidents"),
    Column(name="Repairing", rank=1),
    Column(name="Held"),
)
LEMONS = (
    Column(name="Node"),
    Column(name="Host", rank=3, optional=True),
    Column(name="GPU or slot", rank=2),
    Column(name="Score"),
    Column(name="Failures"),
    Column(name="With", width_min=20, wrap=True),
)
WARNINGS = (
    Column(name="Node"),
    Column(name="Kind"),
    Column(name="Since", rank=1),
    Column(name="What", width_min=20, wrap=True),
)
WARNINGS_MAX = 10
NODE_DAYS_MIN = 1.0
"""With fewer node-days, a rate per thousand means nothing and is shown in JSON only."""
RATES = (
    Column(name="Provider"),
    Column(name="Type"),
    Column(name="Failures"),
    Column(name="Node-days"),
    Column(name="Per 1000"),
    Column(name="95 % interval"),
)


def render_fleet_health(found: FleetHealth, canvas: Canvas) -> str:
    """Return what `navarch health` prints without a node."""
    canvas = replace(canvas, now=found.now)
    blocks = [bold(_headline(found), on=canvas.color)]
    if found.pools:
        blocks.append(render_table(POOLS, [_pool(pool) for pool in found.pools], canvas))
    if any(pool.held for pool in found.pools):
        blocks.append("Actions are held back by limits or a dry run. List them: navarch held list")
    if found.lemons:
        days = f"in {found.window_days} days, against the fleet's rate"
        table = render_table(LEMONS, [_lemon(lemon) for lemon in found.lemons], canvas)
        blocks.append(f"Machines that failed {days} (* lemon):\n{table}")
    if found.warnings:
        rows = [_warning(warning, canvas) for warning in found.warnings[:WARNINGS_MAX]]
        more = len(found.warnings) - WARNINGS_MAX
        rest = f"\n... and {more} more: navarch health -o json" if more > 0 else ""
        table = render_table(WARNINGS, rows, canvas)
        blocks.append(f"GPUs that wear out or slow down their job:\n{table}{rest}")
    known = [rate for rate in found.rates if rate.node_days]
    if known:
        table = render_table(RATES, [_rate(rate) for rate in known], canvas)
        blocks.append(f"Hardware failures per 1000 node-days:\n{table}")
    return "\n\n".join(blocks)


def _headline(found: FleetHealth) -> str:
    nodes = sum(pool.nodes for pool in found.pools)
    sick = sum(pool.by_health.get(Health.UNHEALTHY, 0) for pool in found.pools)
    open_now = sum(pool.incidents for pool in found.pools)
    words = f"{count(nodes, 'node')}, {sick} unhealthy" if sick else f"{count(nodes, 'node')}"
    return f"{words}, {count(open_now, 'open incident')}"


def _pool(pool: PoolHealth) -> list[str]:
    return [
        (pool.pool or "(none)") + (" (dry run)" if pool.dry_run else ""),
        str(pool.nodes),
        str(pool.by_health.get(Health.HEALTHY, 0)),
        str(pool.by_health.get(Health.DEGRADED, 0)),
        str(pool.by_health.get(Health.UNHEALTHY, 0)),
        str(pool.incidents),
        str(pool.recovering + pool.replacing),
        str(pool.held),
    ]


def _lemon(lemon: LemonView) -> list[str]:
    return [
        lemon.node + (" *" if lemon.is_lemon else ""),
        lemon.host,
        lemon.slot or lemon.gpu or "all",
        f"{lemon.score:.1f}",
        str(lemon.strikes),
        "; ".join(lemon.causes),
    ]


def _warning(warning: GpuWarning, canvas: Canvas) -> list[str]:
    return [warning.node, warning.kind, age(warning.since, canvas.now), warning.reason]


def _rate(rate: FailureRate) -> list[str]:
    known = [rate.provider, rate.instance_type, str(rate.failures), f"{rate.node_days:.1f}"]
    if rate.node_days < NODE_DAYS_MIN:
        return [*known, "-", "too few node-days"]
    top = "?" if rate.high is None else f"{rate.high:.1f}"
    return [*known, f"{rate.per_1000_node_days:.1f}", f"{rate.low:.1f} to {top}"]
