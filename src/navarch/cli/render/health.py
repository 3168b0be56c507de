"""The health of one node: each GPU, the rest of the machine, and the history."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.events import render_events
from navarch.cli.render.formatting import COLORS, age, bold, title
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.event import Recorded
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.inventory import Gpu, GpuMetrics
from navarch.core.records import evolve
from navarch.ports.api import NodeDetail

COLUMNS = (
    Column(name="GPU", right=True),
    Column(name="Model", rank=2),
    Column(name="Health"),
    Column(name="Temp", rank=3, right=True),
    Column(name="Power", rank=4, right=True),
    Column(name="Busy", rank=5, right=True),
    Column(name="Since", rank=1, optional=True),
    Column(name="Found", width_min=20, wrap=True, optional=True),
)
_GPU = re.compile(r"\bGPU (\d+)\b")
_RANK = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.DEGRADED: 2, Health.UNHEALTHY: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU and the failed checks about it."""

    gpu: Gpu
    health: Health
    findings: tuple[Condition, ...] = ()
    now: GpuMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """A node's health by GPU, the conditions of the machine as a whole, and the history."""

    node: NodeId
    health: Health
    gpus: tuple[GpuState, ...]
    others: tuple[Condition, ...]
    history: tuple[Recorded, ...]


def gpu_health(detail: NodeDetail, history: Sequence[Recorded]) -> NodeHealth:
    """Assign each condition to the GPUs that it names, or to the machine if it names none."""
    gpus = detail.inventory.gpus if detail.inventory else ()
    readings = detail.metrics.gpus if detail.metrics else ()
    conditions = detail.node.conditions
    states = []
    for place, gpu in enumerate(gpus):
        found = tuple(_about(condition, gpu) for condition in conditions if _names(condition, gpu))
        worst = max((c.health for c in found), key=_RANK.__getitem__, default=Health.HEALTHY)
        now = readings[place] if place < len(readings) else None
        states.append(GpuState(gpu=gpu, health=worst, findings=found, now=now))
    return NodeHealth(
        node=detail.node.id,
        health=detail.node.health,
        gpus=tuple(states),
        others=tuple(c for c in conditions if not any(_names(c, gpu) for gpu in gpus)),
        history=tuple(history),
    )


def render_health(found: NodeHealth, canvas: Canvas) -> str:
    """Return what `navarch health NODE` prints."""
    blocks = [f"{bold(f'node {found.node}', on=canvas.color)} is {found.health}"]
    if found.gpus:
        blocks.append(render_table(COLUMNS, [_row(gpu, canvas) for gpu in found.gpus], canvas))
    if found.others:
        lines = (f"  {c.check}: {c.reason} ({age(c.since, canvas.now)})" for c in found.others)
        blocks.append("\n".join(["Machine:", *lines]))
    if found.history:
        blocks.append("\n".join(["History:", render_events(found.history, canvas)]))
    return "\n\n".join(blocks)


def _row(state: GpuState, canvas: Canvas) -> list[Cell | str]:
    now, first = state.now, min((c.since for c in state.findings), default=None)
    return [
        str(state.gpu.index),
        state.gpu.name,
        Cell(title(state.health), COLORS.get(state.health)),
        f"{now.temperature_c:.0f} °C" if now else "",
        f"{now.power_w:.0f} W" if now else "",
        f"{now.utilization_pct:.0f} %" if now else "",
        age(first, canvas.now) if first else "",
        "; ".join(f"{c.check.partition('/')[0]}: {c.reason}" for c in state.findings),
    ]


def _names(condition: Condition, gpu: Gpu) -> bool:
    """Return whether a condition names a GPU, by its index or by its UUID in the check's name."""
    named = {int(number) for number in _GPU.findall(condition.reason)}
    return gpu.index in named or gpu.uuid in condition.check.split("/")


def _about(condition: Condition, gpu: Gpu) -> Condition:
    """Return a condition about several GPUs, reduced to the part about `gpu`."""
    parts = [part for part in condition.reason.split("; ") if f"GPU {gpu.index}" in part]
    mine = [part for part in parts if _GPU.search(part) and _first(part) == gpu.index]
    return evolve(condition, reason="; ".join(mine)) if mine else condition


def _first(part: str) -> int:
    found = _GPU.search(part)
    return int(found[1]) if found else -1
