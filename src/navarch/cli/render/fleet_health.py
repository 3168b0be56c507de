"""The fleet on one screen, its health, and the health of one node."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from navarch.cli.printing import one_line
from navarch.cli.render.events import render_events, render_incidents, render_recent
from navarch.cli.render.pools import render_pools
from navarch.cli.render.table import (
    COLORS,
    Canvas,
    Cell,
    Column,
    age,
    bold,
    colored,
    count,
    price,
    printable,
    render_table,
    title,
)
from navarch.core.event import Recorded
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, GpuMetrics
from navarch.core.records import evolve
from navarch.ports.api import (
    FailingController,
    FleetStatus,
    NodeDetail,
    PoolView,
    ReplicaStatus,
    StoreStatus,
)
from navarch.ports.fleet_health import (
    FailureRate,
    FleetHealth,
    GpuWarning,
    LemonView,
    PoolHealth,
)

SILENT = timedelta(seconds=10)
"""A replica reports to the database every second."""

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
        blocks.append("\n".join(["Machine:", *map(one_line, lines)]))
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
    parts = condition.reason.split("; ")
    mine = [part for part in parts if (first := _GPU.search(part)) and int(first[1]) == gpu.index]
    return evolve(condition, reason="; ".join(mine)) if mine else condition


WELCOME = "No pools yet. Get some GPUs: navarch up --gpus 8 --type h100 --name my-cluster --wait"


def render_status(status: FleetStatus, canvas: Canvas) -> str:
    """Return what `navarch status` prints, as of the server's own time."""
    canvas = replace(canvas, now=status.now)
    name = f"Cluster {status.cluster}, Navarch {status.version}, revision {status.revision}"
    nodes = sum(status.nodes_by_status.values())
    words = ", ".join(
        f"{number} {word}" for word, number in status.nodes_by_status.items() if number
    )
    totals = (
        f"{count(nodes, 'node')}{f' ({words})' if words else ''}, "
        f"{count(status.gpus, 'GPU')}, {price(status.price_per_hour)}/h"
    )
    head = [bold(name, on=canvas.color), totals]
    parts = ["\n".join([*head, *_verdict(status, canvas)])]
    parts.append(render_pools(status.pools, canvas) if status.pools else WELCOME)
    if status.incidents:
        more = status.open_incidents - len(status.incidents)
        rest = f"\n... and {more} more: navarch incident list --open" if more > 0 else ""
        parts.append(f"Open incidents:\n{render_incidents(status.incidents, canvas)}{rest}")
    if status.recent:
        parts.append(render_recent(status.recent, canvas))
    if status.store is not None:
        lines = [f"Store: {render_store(status.store)}"]
        if status.store.replicas:
            lines += [
                "Replicas:",
                *(f"  {each}" for each in render_replicas(status.store.replicas)),
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_store(store: StoreStatus) -> str:
    """Return what holds the fleet, how large it is, and which servers stand by for it."""
    words = [f"{store.kind} at {printable(store.place)}" if store.place else store.kind]
    if store.bytes:
        words.append(f"{store.bytes / 1e6:.1f} MB")
    words.append(f"answers in {store.answers_in.total_seconds() * 1e3:.0f} ms")
    if store.standbys and not store.replicas:
        behind = max(store.standbys)
        lag = f", {count(behind, 'revision')} behind" if behind else ""
        words.append(f"{count(len(store.standbys), 'server')} on standby{lag}")
    return ", ".join(words)


def render_replicas(replicas: Sequence[ReplicaStatus]) -> list[str]:
    """Return a line for each server that answers: whether it leads, and what is wrong with it."""
    return [
        f"{printable(each.address)} {', '.join(_replica_facts(each, replicas))}"
        for each in replicas
    ]


def _replica_facts(replica: ReplicaStatus, among: Sequence[ReplicaStatus]) -> Iterator[str]:
    yield "leads" if replica.leads else "follows"
    if replica.behind and not replica.leads:
        yield f"{count(replica.behind, 'revision')} behind"
    if replica.silent_for >= SILENT:
        yield f"silent for {replica.silent_for.total_seconds():.0f} s"
    if len({each.version for each in among}) > 1:
        yield f"version {printable(replica.version)}"


def _verdict(status: FleetStatus, canvas: Canvas) -> list[str]:
    """Return a line for each thing that needs attention, the worst first, or that none does."""
    failing = [_failure(each, status) for each in status.failing]
    troubles = [f"{x.spec.name} is paused: {printable(x.paused)}" for x in status.pools if x.paused]
    if short := [pool for pool in status.pools if pool.serving < pool.size]:
        troubles.append("; ".join(_shortage(pool) for pool in short))
    if degraded := status.nodes_by_health.get(Health.DEGRADED, 0):
        words = "1 node is" if degraded == 1 else f"{degraded} nodes are"
        troubles.append(f"{words} degraded (navarch list --health degraded)")
    if status.open_incidents:
        words = "incident is" if status.open_incidents == 1 else "incidents are"
        troubles.append(f"{status.open_incidents} {words} open")
    lines = [colored(f"{text}.", "red", on=canvas.color) for text in failing]
    lines += [colored(f"{text}.", "yellow", on=canvas.color) for text in troubles]
    if not lines and status.pools:
        return [colored("Every pool is complete.", "green", on=canvas.color)]
    return lines


def _failure(failing: FailingController, status: FleetStatus) -> str:
    kind, name = failing.kind.replace("_", " ").capitalize(), printable(failing.name)
    if name.startswith("alerts/"):
        kind, name = "Channel", name.removeprefix("alerts/")
    times = "" if failing.times == 1 else f"{failing.times} times in a row, first "
    where = f" on {failing.subject.replace('/', ' ', 1)}" if failing.subject else ""
    where += f" and {failing.others} more" if failing.others else ""
    retry_at = failing.retry_at
    again = "soon" if retry_at is None else f"at {retry_at:%H:%M:%S} UTC"
    return (
        f"{kind} {name} failed{printable(where)} "
        f"{times}{age(failing.since, status.now)}: "
        f"{printable(failing.error)}; the next attempt is {again}"
    )


def _shortage(pool: PoolView) -> str:
    missing = pool.size - pool.serving
    coming = f", {pool.starting} starting" if pool.starting else ""
    return f"{pool.spec.name} is missing {missing} of {count(pool.size, 'node')}{coming}"
