"""GPU offers, as a table."""

from collections.abc import Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import Offer


def render_offers(offers: Sequence[Offer], canvas: Canvas, *, wanted: str = "") -> str:
    """Return what `navarch offers` prints."""
    if not offers:
        what = f"No offers of {wanted}" if wanted else "No offers"
        return f"{what} found; try without --region, --provider or --mine"
    groups: dict[tuple[object, ...], list[Offer]] = {}
    for offer in offers:
        groups.setdefault(_group_key(offer), []).append(offer)
    columns: list[Column[Offer]] = [
        Column("Provider", lambda offer: offer.offering.provider),
        Column("Instance Type", lambda offer: offer.offering.instance_type, width_min=12),
        Column("GPUs", _gpus, right=True),
        Column("Memory", _memory, rank=4, right=True),
        Column("Location", lambda offer: _place(groups[_group_key(offer)]), width_min=12),
        Column("Capacity", lambda offer: offer.offering.capacity_type),
        Column("$/h", _price, right=True),
        Column("$/GPU", _price_per_gpu, rank=3, right=True),
        Column("Interconnect", lambda offer: offer.interconnect, rank=6),
        Column("Network", lambda offer: offer.fabric, rank=7),
        Column("Price As Of", _priced_at, rank=5),
        Column("Stock", _now),
        Column("Retry At", _retry_at, rank=1, optional=True),
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
    price = offer.offering.price_per_hour
    return f"{price / offer.offering.gpus:,.2f}" if price else "-"


def _priced_at(offer: Offer) -> str:
    known = offer.priced_at and offer.offering.price_per_hour
    return f"{offer.priced_at:%Y-%m-%d}" if known else ""


def _retry_at(offer: Offer) -> str:
    return f"{offer.sold_out_until:%H:%M:%S}" if offer.sold_out_until else ""


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
