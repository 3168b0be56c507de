"""Domains: what a node has in common with others."""

from navarch.core.disruption import Domain
from navarch.core.node import DRIVER, IMAGE, Node

RACK_LABEL = "rack"
NVLINK_LABEL = "nvlink_domain"

Place = tuple[Domain, str]
"""One domain by its kind and name."""


def domains_of(node: Node) -> tuple[Place, ...]:
    """Return the domains of `node`; unknown ones are left out."""
    zone, labels, topology, traits = zone_of(node), node.labels, node.topology, node.traits
    found: list[Place] = []
    if node.pool:
        found.append((Domain.POOL, node.pool))
    if zone:
        found.append((Domain.ZONE, zone))
    # Labels of the agent take precedence over the provider's data.
    rack = labels.get(RACK_LABEL) or (topology.rack if topology else "")
    if rack:
        found.append((Domain.RACK, _within(zone, rack)))
    nvlink = labels.get(NVLINK_LABEL)
    if nvlink:
        found.append((Domain.NVLINK, _within(zone, nvlink)))
    driver, image = traits.get(DRIVER), traits.get(IMAGE)
    if driver is not None and driver.value:
        found.append((Domain.DRIVER, driver.value))
    if image is not None and image.value:
        found.append((Domain.IMAGE, image.value))
    return tuple(found)


def _within(zone: str, name: str) -> str:
    """Return the full name of a part of a zone: racks are numbered from one in each."""
    return f"{zone}/{name}" if zone else name


def zone_of(node: Node) -> str:
    """Return the zone of `node` by its full name, or its region where no zone is known."""
    place = node.place
    if place is None or not (place.zone or place.region):
        return ""
    return "/".join(filter(None, (place.provider, place.region, place.zone)))
