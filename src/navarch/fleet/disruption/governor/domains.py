"""What a node has in common with others."""

from navarch.core.governor import Domain
from navarch.core.node import Node
from navarch.core.trait import DRIVER, IMAGE

RACK_LABEL = "rack"
NVLINK_LABEL = "nvlink_domain"

Place = tuple[Domain, str]
"""One domain by its kind and name."""


def domains_of(node: Node) -> tuple[Place, ...]:
    """Return the domains that `node` is in; what is not known of it, it shares with nobody."""
    zone, labels, topology, traits = _zone(node), node.labels, node.topology, node.traits
    found: list[Place] = []
    if node.pool:
        found.append((Domain.POOL, node.pool))
    if zone:
        found.append((Domain.ZONE, zone))
    # What the agent was told goes before what the provider knows.
    rack = labels.get(RACK_LABEL) or (topology.rack if topology else "")
    for kind, name in ((Domain.RACK, rack), (Domain.NVLINK, labels.get(NVLINK_LABEL))):
        if name:
            # Racks are numbered from one in every building.
            found.append((kind, f"{zone}/{name}" if zone else name))
    for kind, key in ((Domain.DRIVER, DRIVER), (Domain.IMAGE, IMAGE)):
        trait = traits.get(key)
        if trait is not None and trait.value:
            found.append((kind, trait.value))
    return tuple(found)


def _zone(node: Node) -> str:
    place = node.place
    if place is None or not (place.zone or place.region):
        return ""
    return "/".join(part for part in (place.provider, place.region, place.zone) if part)
