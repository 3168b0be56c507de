"""GPU offers, as a table."""

from collections.abc import Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import Offer

COLUMNS = (
    Column(name="Provider"),
    Column(name="Instance Type", width_min=12),
    Column(name="GPUs", right=True),
    Column(name="Memory", rank=4, right=True),
    Column(name="Location", width_min=12),
    Column(name="Capacity"),
    Column(name="$/h", right=True),
    Column(name="$/GPU", rank=3, right=True),
    Column(name="Interconnect", rank=6),
    Column(name="Network", rank=7),
    Column(name="Price As Of", rank=5),
    Column(name="Stock"),
    Column(name="Retry At", rank=1, optional=True),
)


def render_offers(offers: Sequence[Offer], canvas: Canvas, *, wanted: str = "") -> str:
    """Return what `navarch offers` prints."""
    if not offers:
        what = f"No offers of {wanted}" if wanted else "No offers"
        return f"{what} found; try without --region, --provider or --mine"
    groups: dict[tuple[object, ...], list[Offer]] = {}
    for offer in offers:
        groups.setdefault(_group_key(offer), []).append(offer)
    rows = [_row(group) for group in groups.values()]
    lines = [render_table(COLUMNS, rows, canvas)]
    if any(not offer.configured for offer in offers):
        lines += ["", "no account: add the provider to `providers` in the server's configuration"]
    return "\n".join(lines)


def _group_key(offer: Offer) -> tuple[object, ...]:
    """Return the key by which offers in zones of one region share a line."""
    sold = offer.offering
    kind = (sold.provider, sold.instance_type, sold.region, sold.spot, sold.reservation)
    return (*kind, sold.price_per_hour, offer.sold_out)


def _row(group: Sequence[Offer]) -> list[Cell | str]:
    offer, sold = group[0], group[0].offering
    memory = f"{offer.gpu_memory_gib:g} GiB" if offer.gpu_memory_gib else ""
    gpus = f"{sold.gpus}" if offer.machines == 1 else f"{offer.machines} x {sold.gpus}"
    known = bool(sold.price_per_hour)
    return [
        str(sold.provider),
        sold.instance_type,
        f"{gpus} {sold.gpu_type}".strip(),
        memory,
        _place(group),
        sold.capacity_type,
        f"{sold.price_per_hour * offer.machines:,.2f}" if known else "-",
        f"{sold.price_per_hour / sold.gpus:,.2f}" if known else "-",
        offer.interconnect,
        offer.fabric,
        f"{offer.priced_at:%Y-%m-%d}" if offer.priced_at and known else "",
        _now(offer),
        f"{offer.sold_out_until:%H:%M:%S}" if offer.sold_out_until else "",
    ]


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
