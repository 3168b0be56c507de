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

POOLS: list[Column[PoolHealth]] = [
    Column("Pool", lambda pool: (pool.pool or "(none)") + (" (dry run)" if pool.dry_run else "")),
    Column("Nodes", lambda pool: str(pool.nodes)),
    Column("Healthy", lambda pool: str(pool.by_health.get(Health.HEALTHY, 0))),
    Column("Degraded", lambda pool: str(pool.by_health.get(Health.DEGRADED, 0)), rank=2),
    Column("Unhealthy", lambda pool: str(pool.by_health.get(Health.UNHEALTHY, 0))),
    Column("Incidents", lambda pool: str(pool.incidents)),
    Column("Repairing", lambda pool: str(pool.recovering + pool.replacing), rank=1),
    Column("Held", lambda pool: str(pool.held)),
]
LEMONS: list[Column[LemonView]] = [
    Column("Node", lambda lemon: lemon.node + (" *" if lemon.is_lemon else "")),
    Column("Host", lambda lemon: lemon.host, rank=3, optional=True),
    Column("GPU or slot", lambda lemon: lemon.slot or lemon.gpu or "all", rank=2),
    Column("Score", lambda lemon: f"{lemon.score:.1f}"),
    Column("Failures", lambda lemon: str(lemon.strikes)),
    Column("With", lambda lemon: "; ".join(lemon.causes), width_min=20, wrap=True),
]
RATES: list[Column[FailureRate]] = [
    Column("Provider", lambda rate: rate.provider),
    Column("Type", lambda rate: rate.instance_type),
    Column("Failures", lambda rate: str(rate.failures)),
    Column("Node-days", lambda rate: f"{rate.node_days:.1f}"),
    Column(
        "Per 1000",
        lambda rate: f"{rate.per_1000_node_days:.1f}" if _is_long_enough(rate) else "-",
    ),
    Column(
        "95 % interval",
        lambda rate: (
            f"{rate.low:.1f} to {'?' if rate.high is None else f'{rate.high:.1f}'}"
            if _is_long_enough(rate)
            else "too few node-days"
        ),
    ),
]
WARNINGS_MAX = 10
NODE_DAYS_MIN = 1.0
"""With fewer node-days, a rate per thousand means nothing and is shown in JSON only."""


def render_fleet_health(found: FleetHealth, canvas: Canvas) -> str:
    """Return what `navarch health` prints without a node."""
    canvas = replace(canvas, now=found.now)
    blocks = [bold(_headline(found), on=canvas.color)]
    if found.pools:
        blocks.append(render_table(POOLS, found.pools, canvas))
    if any(pool.held for pool in found.pools):
        blocks.append("Actions are held back by limits or a dry run. List them: navarch held list")
    if found.lemons:
        days = f"in {found.window_days} days, against the fleet's rate"
        table = render_table(LEMONS, found.lemons, canvas)
        blocks.append(f"Machines that failed {days} (* lemon):\n{table}")
    if found.warnings:
        columns: list[Column[GpuWarning]] = [
            Column("Node", lambda warning: warning.node),
            Column("Kind", lambda warning: warning.kind),
            Column("Since", lambda warning: age(warning.since, canvas.now), rank=1),
            Column("What", lambda warning: warning.reason, width_min=20, wrap=True),
        ]
        more = len(found.warnings) - WARNINGS_MAX
        rest = f"\n... and {more} more: navarch health -o json" if more > 0 else ""
        table = render_table(columns, found.warnings[:WARNINGS_MAX], canvas)
        blocks.append(f"GPUs that wear out or slow down their job:\n{table}{rest}")
    known = [rate for rate in found.rates if rate.node_days]
    if known:
        table = render_table(RATES, known, canvas)
        blocks.append(f"Hardware failures per 1000 node-days:\n{table}")
    return "\n\n".join(blocks)


def _headline(found: FleetHealth) -> str:
    nodes = sum(pool.nodes for pool in found.pools)
    sick = sum(pool.by_health.get(Health.UNHEALTHY, 0) for pool in found.pools)
    open_now = sum(pool.incidents for pool in found.pools)
    words = f"{count(nodes, 'node')}, {sick} unhealthy" if sick else f"{count(nodes, 'node')}"
    return f"{words}, {count(open_now, 'open incident')}"


def _is_long_enough(rate: FailureRate) -> bool:
    return rate.node_days >= NODE_DAYS_MIN
