"""The health of one node: each GPU, the rest of the machine, and the history."""

import re
from collections.abc import Callable, Sequence
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
        blocks.append(_gpu_table(found.gpus, canvas))
    if found.others:
        lines = (f"  {c.check}: {c.reason} ({age(c.since, canvas.now)})" for c in found.others)
        blocks.append("\n".join(["Machine:", *lines]))
    if found.history:
        blocks.append("\n".join(["History:", render_events(found.history, canvas)]))
    return "\n\n".join(blocks)


def _gpu_table(gpus: Sequence[GpuState], canvas: Canvas) -> str:
    def since(state: GpuState) -> str:
        first = min((c.since for c in state.findings), default=None)
        return age(first, canvas.now) if first else ""

    def found(state: GpuState) -> str:
        return "; ".join(f"{c.check.partition('/')[0]}: {c.reason}" for c in state.findings)

    columns: list[Column[GpuState]] = [
        Column("GPU", lambda state: str(state.gpu.index), right=True),
        Column("Model", lambda state: state.gpu.name, rank=2),
        Column("Health", lambda state: Cell(title(state.health), COLORS.get(state.health))),
        Column("Temp", _reading("{0.temperature_c:.0f} °C"), rank=3, right=True),
        Column("Power", _reading("{0.power_w:.0f} W"), rank=4, right=True),
        Column("Busy", _reading("{0.utilization_pct:.0f} %"), rank=5, right=True),
        Column("Since", since, rank=1, optional=True),
        Column("Found", found, width_min=20, wrap=True, optional=True),
    ]
    return render_table(columns, gpus, canvas)


def _reading(form: str) -> Callable[[GpuState], str]:
    return lambda state: form.format(state.now) if state.now else ""


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
