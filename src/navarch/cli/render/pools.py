"""Pools, as a table and one by one, and the progress of their nodes."""

from collections.abc import Iterator, Mapping, Sequence

from navarch.cli.render.nodes import health_cell, note, status_cell, status_word
from navarch.cli.render.table import (
    Canvas,
    Cell,
    Column,
    count,
    duration,
    exact_duration,
    price,
    printable,
    render_table,
)
from navarch.core.autoscaling import (
    DAYS,
    Autoscaling,
    CompositeSettings,
    CostAwareSettings,
    PredictiveSettings,
    QueueSettings,
    ReactiveSettings,
    ScheduledSettings,
    Window,
)
from navarch.core.disruption import Disruption
from navarch.core.ids import NodeId
from navarch.core.launch import Offering
from navarch.ports.api import NodeView, PoolView


def render_pools(pools: Sequence[PoolView], canvas: Canvas) -> str:
    """Return the table that `navarch pool list` prints."""
    return render_table(COLUMNS, pools, canvas) if pools else "No pools found"


def _ready(pool: PoolView) -> Cell:
    complete = pool.serving >= pool.size
    return Cell(f"{pool.serving}/{pool.size}", "green" if complete else "yellow")


def _type(pool: PoolView) -> str:
    return pool.spec.offerings[0].instance_type if pool.spec.offerings else ""


def _number(number: int, color: str) -> Cell:
    return Cell(str(number), color if number else None)


COLUMNS: list[Column[PoolView]] = [
    Column("Pool", lambda pool: pool.spec.name),
    Column("Ready", _ready, right=True),
    Column("Starting", lambda pool: _number(pool.starting, "cyan"), rank=2, right=True),
    Column("Leaving", lambda pool: _number(pool.leaving, "yellow"), rank=3, right=True),
    Column("Unhealthy", lambda pool: _number(pool.unhealthy, "red"), rank=1, right=True),
    Column("Cordoned", lambda pool: _number(pool.cordoned, "yellow"), rank=7, right=True),
    Column(
        "Bounds", lambda pool: f"{pool.spec.nodes_min}-{pool.spec.nodes_max}", rank=6, right=True
    ),
    Column("Instance Type", _type, rank=8),
    Column("$/h", lambda pool: price(pool.price_per_hour), rank=5, right=True),
    Column("Note", lambda pool: pool.note, rank=4, width_min=16, optional=True),
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
    yield "Self-registered", f"{pool.hosts} of them, never terminated" if pool.hosts else ""
    yield "Starting", str(pool.starting) if pool.starting else ""
    yield "Leaving", str(pool.leaving) if pool.leaving else ""
    yield "Unhealthy", str(pool.unhealthy) if pool.unhealthy else ""
    yield "Cordoned", str(pool.cordoned) if pool.cordoned else ""
    yield "Bounds", f"{spec.nodes_min} to {spec.nodes_max} nodes"
    yield "Price", f"{price(pool.price_per_hour)}/h"
    yield "Waiting for", printable(pool.note)
    yield "Auto Replace", "yes" if spec.auto_replace else "no"
    yield "Unhealthy After", f"{spec.unhealthy_after} verdicts in a row"
    yield "Silent After", exact_duration(spec.silent_after)
    yield "Boot Deadline", exact_duration(spec.boot_deadline)
    yield "Drain Timeout", exact_duration(spec.drain_timeout)
    yield "Autoscaling", _autoscaling(spec.autoscaling)
    if spec.autoscaling is not None:
        yield "Cooldown", exact_duration(spec.cooldown)
        yield "Shrinks After", f"{exact_duration(spec.shrink_after)} of low use"
    yield "Spares", f"{spec.spares} above the size" if spec.spares else ""
    yield "Replaced", "; ".join(_replaced(spec.disruption))
    yield "SSH Keys", ", ".join(spec.ssh_keys)
    yield "Agent", spec.setup.agent or ""
    yield "Image", printable(spec.setup.image)
    yield "Set-up", count(len(spec.setup.commands), "command") if spec.setup.commands else ""
    yield "User Data", "its own" if spec.user_data or spec.setup.user_data else ""


def _replaced(disruption: Disruption) -> Iterator[str]:
    """Yield when healthy nodes of a pool are replaced, and how many at once."""
    if disruption.lifetime_max is not None:
        yield f"after {exact_duration(disruption.lifetime_max)}"
    if disruption.replace_drifted:
        yield "when drifted from the configuration"
    if disruption.savings_min is not None:
        yield f"when {disruption.savings_min:.0%} can be saved"
    for budget in disruption.budgets:
        share = f" or {budget.share_max:.0%}" if budget.share_max else ""
        zone = printable(budget.time_zone)
        when = f" at {budget.hours} {zone}" if budget.hours else ""
        days = ", ".join(DAYS[day].value[:3] for day in budget.days)
        what = ", ".join(cause.value for cause in budget.causes)
        words = (f"at most {budget.nodes_max}{share}", f" on {days}" if days else "", when)
        yield "".join((*words, f" ({what})" if what else ""))


def _autoscaling(strategy: Autoscaling | None) -> str:
    """Return an autoscaling strategy and its fallbacks in words."""
    if strategy is None or len(strategy.given) != 1:
        return ""
    match strategy.settings:
        case ReactiveSettings(scale_up_at=up, scale_down_at=down):
            return f"reactive (grows above {up:g}%, shrinks below {down:g}%)"
        case QueueSettings(jobs_per_node=jobs):
            return f"queue ({jobs} jobs/node)"
        case ScheduledSettings(windows=windows, time_zone=zone, fallback=fallback):
            hours = "; ".join(f"{window}{_bounds(window)}" for window in windows)
            return f"scheduled ({printable(zone)}: {hours})" + _then(fallback)
        case PredictiveSettings(lookback_window=looks, fallback=fallback):
            return f"predictive (over {looks} samples)" + _then(fallback)
        case CompositeSettings(members=members, mode=mode):
            return f"{mode} of [{', '.join(_autoscaling(each) for each in members)}]"
        case CostAwareSettings() as settings:
            hours = f"peak {settings.peak_start}:00 to {settings.peak_end}:00"
            zone = printable(settings.time_zone)
            return f"cost-aware ({hours} {zone}, else {settings.off_peak_nodes} nodes)"


def _then(fallback: Autoscaling | None) -> str:
    return "" if fallback is None else f", else {_autoscaling(fallback)}"


def _bounds(window: Window) -> str:
    low, high = window.nodes_min, window.nodes_max
    if low is not None and high is not None:
        return f", {low} to {high} nodes"
    if low is not None:
        return f", {low} nodes or more"
    return f", {high} nodes or fewer" if high is not None else ""


def offer(offering: Offering) -> str:
    """Return an offering in a few words."""
    gpus = f"{offering.gpus} {offering.gpu_type or 'GPU'}{'' if offering.gpus == 1 else 's'}"
    spot = "" if offering.capacity_type == "on demand" else f", {offering.capacity_type}"
    hourly = f"{price(offering.price_per_hour)}/h" if offering.price_per_hour else "price unknown"
    return f"{offering} ({gpus}, {hourly}{spot})"


def render_progress(headline: str, nodes: Sequence[NodeView], canvas: Canvas) -> str:
    """Return the state of a pool that starts or terminates, as a table."""
    if not nodes:
        return headline

    def remark(node: NodeView) -> str:
        # For a starting node the note is its age, which has its own column.
        return note(node, canvas) if node.retiring or node.conditions or node.cordoned else ""

    columns: list[Column[NodeView]] = [
        Column("Node ID", lambda node: node.id),
        Column("Status", status_cell),
        Column("For", lambda node: duration(canvas.now - node.since), right=True),
        Column("Health", health_cell, rank=3),
        Column("Instance ID", lambda node: node.instance or "", rank=2),
        Column("Instance Type", lambda node: node.instance_type, rank=4),
        Column("Note", remark, rank=1, width_min=16, optional=True),
    ]
    return f"{headline}\n{render_table(columns, nodes, canvas)}"


def render_changes(before: Mapping[NodeId, NodeView], nodes: Sequence[NodeView]) -> list[str]:
    """Return a line for each node that changed or disappeared."""
    lines = []
    for node in nodes:
        old = before.get(node.id)
        if old is None or _change(old) != _change(node):
            lines.append(_change(node))
    here = {node.id for node in nodes}
    lines += [f"{name} is gone" for name in before if name not in here]
    return lines


def _change(node: NodeView) -> str:
    machine = f" on {node.instance}" if node.instance else ""
    reason = f": {node.retiring}" if node.retiring else ""
    return f"{node.id} is {status_word(node).lower()}{machine}{reason}"
