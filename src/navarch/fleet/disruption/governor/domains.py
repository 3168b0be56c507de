"""What a node has in common with others."""

from collections.abc import Iterator

from navarch.core.governor import Domain
from navarch.core.node import Node
from navarch.core.trait import DRIVER, IMAGE

RACK_LABEL = "rack"
NVLINK_LABEL = "nvlink_domain"

Place = tuple[Domain, str]
"""One domain by its kind and name."""


def domains_of(node: Node) -> tuple[Place, ...]:
    """Return the domains that `node` is in; what is not known of it, it shares with nobody."""
    return tuple((kind, name) for kind, name in _named(node) if name)


def _named(node: Node) -> Iterator[Place]:
    yield Domain.POOL, node.pool or ""
    zone = _zone(node)
    yield Domain.ZONE, zone
    # What the agent was told goes before what the provider knows.
    known = {RACK_LABEL: node.topology.rack if node.topology else ""}
    for kind, label in ((Domain.RACK, RACK_LABEL), (Domain.NVLINK, NVLINK_LABEL)):
        name = node.labels.get(label) or known.get(label, "")
        # Racks are numbered from one in every building.
        yield kind, f"{zone}/{name}" if name and zone else name
    for kind, trait in ((Domain.DRIVER, DRIVER), (Domain.IMAGE, IMAGE)):
        yield kind, node.traits[trait].value if trait in node.traits else ""


def _zone(node: Node) -> str:
    place = node.place
    if place is None or not (place.zone or place.region):
        return ""
    return "/".join(part for part in (place.provider, place.region, place.zone) if part)
