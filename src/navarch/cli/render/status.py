"""The fleet on one screen."""

from dataclasses import replace

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.events import render_recent
from navarch.cli.render.formatting import bold, colored, count, price, printable
from navarch.cli.render.pools import render_pools
from navarch.core.limits import PAUSED
from navarch.ports.api import FleetStatus, PoolView

WELCOME = "No pools yet. Get some GPUs: navarch up --gpus 8 --type h100 --name my-cluster --wait"


def render_status(status: FleetStatus, canvas: Canvas) -> str:
    """Return what `navarch status` prints, as of the server's own time."""
    canvas = replace(canvas, now=status.now)
    parts = [_headline(status, canvas)]
    parts.append(render_pools(status.pools, canvas) if status.pools else WELCOME)
    if status.recent:
        parts.append(render_recent(status.recent, canvas))
    return "\n\n".join(parts)


def _headline(status: FleetStatus, canvas: Canvas) -> str:
    name = f"Cluster {status.cluster}, Navarch {status.version}, revision {status.revision}"
    nodes = sum(status.nodes_by_status.values())
    words = ", ".join(
        f"{number} {word}" for word, number in status.nodes_by_status.items() if number
    )
    totals = (
        f"{count(nodes, 'node')}{f' ({words})' if words else ''}, "
        f"{count(status.gpus, 'GPU')}, {price(status.price_per_hour)}/h"
    )
    lines = [bold(name, on=canvas.color), totals]
    return "\n".join([*lines, _verdict(status, canvas)] if status.pools else lines)


def _verdict(status: FleetStatus, canvas: Canvas) -> str:
    """Return one line on whether every pool has all its nodes."""
    short = [pool for pool in status.pools if pool.serving < pool.size]
    if not short:
        return colored("Every pool is complete.", "green", on=canvas.color)
    return colored("; ".join(_shortage(pool) for pool in short) + ".", "yellow", on=canvas.color)


def _shortage(pool: PoolView) -> str:
    if pool.note.startswith(PAUSED):
        return f"{pool.spec.name} is {printable(pool.note)}"
    missing = pool.size - pool.serving
    coming = f", {pool.starting} starting" if pool.starting else ""
    return f"{pool.spec.name} is missing {missing} of {count(pool.size, 'node')}{coming}"
