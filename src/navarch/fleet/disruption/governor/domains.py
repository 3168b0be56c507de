"""Domains: what a node has in common with others."""

from datetime import datetime

from navarch.core.disruption import Domain
from navarch.core.node import DRIVER, IMAGE, Node

RACK_LABEL = "rack"
NVLINK_LABEL = "nvlink_domain"

Place = tuple[Domain, str]
"""One domain by its kind and name."""


def domains_of(node: Node, at: datetime | None = None) -> tuple[Place, ...]:
    """Return the domains of `node`, now or `at` an earlier time; unknown ones are left out.

    Only the driver and the image change during the life of a node.
    """
    zone, labels, topology = zone_of(node), node.labels, node.topology
    # Racks are numbered from one in each zone.
    within = f"{zone}/" if zone else ""
    found: list[Place] = []
    if node.pool:
        found.append((Domain.POOL, node.pool))
    if zone:
        found.append((Domain.ZONE, zone))
    # Labels of the agent take precedence over the provider's data.
    rack = labels.get(RACK_LABEL) or (topology.rack if topology else "")
    if rack:
        found.append((Domain.RACK, f"{within}{rack}"))
    nvlink = labels.get(NVLINK_LABEL)
    if nvlink:
        found.append((Domain.NVLINK, f"{within}{nvlink}"))
    for domain, key in ((Domain.DRIVER, DRIVER), (Domain.IMAGE, IMAGE)):
        trait = node.traits.get(key)
        value = "" if trait is None else trait.value if at is None else trait.value_at(at)
        if value:
            found.append((domain, value))
    return tuple(found)


def zone_of(node: Node) -> str:
    """Return the zone of `node` by its full name, or its region where no zone is known."""
    place = node.place
    if place is None or not (place.zone or place.region):
        return ""
    return "/".join(filter(None, (place.provider, place.region, place.zone)))
