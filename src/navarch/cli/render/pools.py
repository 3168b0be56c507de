"""Pools, as a list and one by one."""

from collections.abc import Iterator, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.table import Cell, Column, render_table
from navarch.cli.render.words import exact_duration, price, printable
from navarch.core.offering import Offering
from navarch.ports.api import PoolView

COLUMNS = (
    Column(name="Pool"),
    Column(name="Ready", right=True),
    Column(name="Starting", rank=2, right=True),
    Column(name="Leaving", rank=3, right=True),
    Column(name="Unhealthy", rank=1, right=True),
    Column(name="Cordoned", rank=7, right=True),
    Column(name="Bounds", rank=6, right=True),
    Column(name="Instance Type", rank=8),
    Column(name="$/h", rank=5, right=True),
    Column(name="Note", rank=4, width_min=16, optional=True),
)

NOTHING = "No pools found"


def render_pools(pools: Sequence[PoolView], canvas: Canvas) -> str:
    """Return the table that `navarch pool list` prints."""
    if not pools:
        return NOTHING
    return render_table(COLUMNS, [_row(pool) for pool in pools], canvas)


def _row(pool: PoolView) -> list[Cell | str]:
    whole = pool.serving >= pool.size
    return [
        pool.spec.name,
        Cell(f"{pool.serving}/{pool.size}", "green" if whole else "yellow"),
        Cell(str(pool.starting), "cyan" if pool.starting else None),
        Cell(str(pool.leaving), "yellow" if pool.leaving else None),
        Cell(str(pool.unhealthy), "red" if pool.unhealthy else None),
        Cell(str(pool.cordoned), "yellow" if pool.cordoned else None),
        f"{pool.spec.nodes_min}-{pool.spec.nodes_max}",
        pool.spec.offerings[0].instance_type if pool.spec.offerings else "",
        price(pool.price_per_hour),
        pool.note,
    ]


def render_pool(pool: PoolView) -> str:
    """Return what `navarch pool get` prints."""
    lines = [f"{name + ':':<17}{word}" for name, word in _facts(pool) if word]
    lines += ["Offerings:", *(f"  {offer(offering)}" for offering in pool.spec.offerings)]
    labels = sorted(pool.spec.labels.items())
    if labels:
        lines += ["Labels:", *(f"  {key}: {word}" for key, word in labels)]
    return "\n".join(lines)


def _facts(pool: PoolView) -> Iterator[tuple[str, str]]:
    spec = pool.spec
    yield "Pool", spec.name
    yield "Nodes", f"{pool.serving} of {pool.size} ready"
    yield "Starting", str(pool.starting) if pool.starting else ""
    yield "Leaving", str(pool.leaving) if pool.leaving else ""
    yield "Unhealthy", str(pool.unhealthy) if pool.unhealthy else ""
    yield "Cordoned", str(pool.cordoned) if pool.cordoned else ""
    yield "Bounds", f"{spec.nodes_min} to {spec.nodes_max} nodes"
    yield "Price", f"{price(pool.price_per_hour)}/h"
    yield "Waiting for", printable(pool.note)
    yield "Auto Replace", "yes" if spec.auto_replace else "no"
    yield "Unhealthy After", f"{spec.unhealthy_after} verdicts in a row"
    yield "Boot Deadline", exact_duration(spec.boot_deadline)
    yield "Drain Timeout", exact_duration(spec.drain_timeout)
    yield "SSH Keys", ", ".join(spec.ssh_keys)


def offer(offering: Offering) -> str:
    """Return an offering in a few words."""
    gpus = f"{offering.gpus} {offering.gpu_type or 'GPU'}{'' if offering.gpus == 1 else 's'}"
    spot = ", spot" if offering.spot else ""
    return f"{offering} ({gpus}, {price(offering.price_per_hour)}/h{spot})"
