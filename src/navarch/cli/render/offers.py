"""Offers, machines as providers list them, and costs, as tables."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from navarch.cli.printing import one_line
from navarch.cli.render.table import (
    COLORS,
    Canvas,
    Cell,
    Column,
    age,
    colored,
    printable,
    render_table,
    time_and_age,
    title,
)
from navarch.ports.api import BudgetView, CostLine, CostReport, InstanceView, Offer


def render_offers(offers: Sequence[Offer], canvas: Canvas, *, wanted: str = "") -> str:
    """Return what `navarch offers` prints."""
    if not offers:
        what = f"No offers of {wanted}" if wanted else "No offers"
        return f"{what} found; try without --region, --provider or --mine"
    groups: dict[tuple[object, ...], list[Offer]] = {}
    for offer in offers:
        groups.setdefault(_group_key(offer), []).append(offer)
    columns: list[Column[Offer]] = [
        Column("Provider", lambda offer: offer.offering.provider, width_min=8),
        Column("Instance Type", lambda offer: offer.offering.instance_type, width_min=12),
        Column("GPUs", _gpus, right=True, width_min=9),
        Column("Memory", _memory, rank=4, right=True),
        Column("Location", lambda offer: _place(groups[_group_key(offer)]), width_min=9),
        Column("Capacity", lambda offer: offer.offering.capacity_type, width_min=9),
        Column("$/h", _price, right=True),
        Column("$/GPU", _price_per_gpu, rank=3, right=True),
        Column("Interconnect", lambda offer: offer.interconnect, rank=6),
        Column("Network", lambda offer: offer.fabric, rank=7),
        Column("Price As Of", _priced_at, rank=5),
        Column("Stock", _now),
        Column(
            "Retry At",
            lambda offer: f"{offer.sold_out_until:%H:%M:%S}" if offer.sold_out_until else "",
            rank=1,
            optional=True,
        ),
    ]
    lines = [render_table(columns, [group[0] for group in groups.values()], canvas)]
    if any(not offer.configured for offer in offers):
        lines += ["", "no account: add the provider to `providers` in the server's configuration"]
    return "\n".join(lines)


def _group_key(offer: Offer) -> tuple[object, ...]:
    """Return the key by which offers in zones of one region share a line."""
    sold = offer.offering
    kind = (sold.provider, sold.instance_type, sold.region, sold.spot, sold.reservation)
    return (*kind, sold.price_per_hour, offer.sold_out)


def _gpus(offer: Offer) -> str:
    gpus, machines = offer.offering.gpus, offer.machines
    number = f"{gpus}" if machines == 1 else f"{machines} x {gpus}"
    return f"{number} {offer.offering.gpu_type}".strip()


def _memory(offer: Offer) -> str:
    return f"{offer.gpu_memory_gib:g} GiB" if offer.gpu_memory_gib else ""


def _price(offer: Offer) -> str:
    price = offer.offering.price_per_hour
    return f"{price * offer.machines:,.2f}" if price else "-"


def _price_per_gpu(offer: Offer) -> str:
    price, gpus = offer.offering.price_per_hour, offer.offering.gpus
    return f"{price / gpus:,.2f}" if price and gpus else "-"


def _priced_at(offer: Offer) -> str:
    known = offer.priced_at and offer.offering.price_per_hour
    return f"{offer.priced_at:%Y-%m-%d}" if known else ""


def _place(group: Sequence[Offer]) -> str:
    """Return a region with its zones, such as `us-east-1 a,b`."""
    region = group[0].offering.region
    zones = [offer.offering.zone for offer in group if offer.offering.zone]
    if len(zones) == 1:
        return zones[0]
    short = sorted({zone.removeprefix(region).lstrip("-") for zone in zones})
    return f"{region} {','.join(short)}" if short else region


def _now(offer: Offer) -> Cell | str:
    if not offer.configured:
        return Cell("no account", "bright_black")
    if offer.sold_out is None:
        return "available"
    return Cell("sold out", "red")


def render_instances(instances: Sequence[InstanceView], canvas: Canvas) -> str:
    """Return the table that `navarch instance list` prints."""
    if not instances:
        return "No instances found"
    columns: list[Column[InstanceView]] = [
        Column("Instance ID", lambda instance: instance.id),
        Column("Provider", lambda instance: instance.provider, rank=5),
        Column("Region", lambda instance: instance.region, rank=3),
        Column("Zone", lambda instance: instance.zone, rank=7),
        Column("Instance Type", lambda instance: instance.instance_type, rank=4),
        Column("State", lambda instance: Cell(title(instance.state), COLORS.get(instance.state))),
        Column("Node ID", lambda instance: instance.node, rank=1),
        Column("Pool", lambda instance: instance.pool or "", rank=6),
        Column("Created", lambda instance: age(instance.created_at, canvas.now), rank=2),
        Column("Message", lambda instance: instance.message, rank=8, width_min=16, optional=True),
    ]
    return render_table(columns, instances, canvas)


def render_instance(instance: InstanceView, canvas: Canvas) -> str:
    """Return what `navarch instance get` prints."""
    lines = [f"{name + ':':<16}{word}" for name, word in _facts(instance, canvas) if word]
    labels = sorted(instance.labels.items())
    if labels:
        lines += ["Labels:", *(f"  {key}: {word}" for key, word in labels)]
    return "\n".join(map(one_line, lines))


def _facts(instance: InstanceView, canvas: Canvas) -> Iterator[tuple[str, str]]:
    yield "Instance ID", instance.id
    yield "Provider", instance.provider
    yield "Region", instance.region
    yield "Zone", instance.zone
    yield "Instance Type", instance.instance_type
    yield "State", colored(title(instance.state), COLORS.get(instance.state), on=canvas.color)
    yield "Node ID", instance.node
    yield "Pool", instance.pool or ""
    yield "Created", time_and_age(instance.created_at, canvas.now)
    yield "Ready", time_and_age(instance.ready_at, canvas.now)
    yield "Terminated", time_and_age(instance.terminated_at, canvas.now)
    yield "Message", printable(instance.message)


_COLORS = {"fine": "green", "near": "yellow", "spent": "red"}


def render_cost(report: CostReport, canvas: Canvas) -> str:
    """Return what `navarch cost` prints."""
    heading = f"{report.since:%Y-%m-%d} to {report.until:%Y-%m-%d %H:%M} UTC"
    if not report.lines:
        return f"{heading}: no machines launched"
    columns: list[Column[CostLine]] = [
        Column(str(report.by).capitalize(), lambda line: line.name or "-"),
        Column("Machines", lambda line: str(line.machines), rank=3, right=True),
        Column("Running", lambda line: str(line.running), rank=2, right=True),
        Column(
            "Hours",
            lambda line: f"{line.machine_time.total_seconds() / 3600:,.1f}",
            rank=4,
            right=True,
        ),
        Column("Spent", lambda line: _money(line.spent), right=True),
        Column("$/h", lambda line: _money(line.per_hour), rank=1, right=True),
        Column("Forecast", lambda line: _money(line.forecast), rank=5, right=True),
    ]
    lines = [*report.lines, report.total] if len(report.lines) > 1 else report.lines
    parts = [heading, render_table(columns, lines, canvas)]
    if report.budgets:
        parts += ["", render_table(BUDGETS, report.budgets, canvas)]
    return "\n".join(parts)


BUDGETS: list[Column[BudgetView]] = [
    Column("Budget", lambda budget: budget.name),
    Column(
        "Spent", lambda budget: Cell(_money(budget.spent), _COLORS.get(budget.level)), right=True
    ),
    Column("Limit", lambda budget: _money(budget.limit_per_month), right=True),
    Column("Forecast", lambda budget: _money(budget.forecast), rank=1, right=True),
    Column("When Spent", lambda budget: str(budget.when_spent), rank=2),
]


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"
