"""What nodes share: the attributes that can be the common cause of their faults."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from navarch.core.disruption import Domain
from navarch.core.health import HEARTBEAT, Condition
from navarch.core.instance import Topology
from navarch.core.node import (
    AGENT,
    CHANGING,
    CHECK_TRAIT,
    DRIVER,
    IMAGE,
    KERNEL,
    LINK,
    POLICY,
    Node,
)

Attribute = tuple[str, str]
"""The kind of an attribute and its value."""

FLEET = "all nodes"
"""The one value of the domain of all nodes."""

LABELS = {
    "rack": "rack",
    "nvlink_domain": "nvlink",
    "switch": "switch",
    "power_feed": "power_feed",
    "network_path": "network_path",
}
"""The kind of attribute for each label with which an agent may name the place of its machine."""

WORDS = {
    "fleet": "fleet",
    "pool": "pool",
    "provider": "provider",
    "region": "region",
    "zone": "zone",
    "block": "network block",
    "switch": "switch",
    "network_path": "network path",
    "power_feed": "power feed",
    "rack": "rack",
    "nvlink": "NVLink domain",
    LINK: "server address",
    "instance_type": "instance type",
    DRIVER: "driver",
    IMAGE: "image",
    KERNEL: "kernel",
    AGENT: "agent",
    POLICY: "policy",
    CHECK_TRAIT: "version of check",
}
"""The kinds of attributes, in the words for operators."""

SOFTWARE = (*CHANGING, POLICY)

GROUPS = ("pool", "provider", "instance_type")

PLACES = ("zone", "region", "block", "switch", "network_path", "power_feed", "rack", "nvlink")
"""The kinds whose machines may really be broken together. All others, such as a driver or an
instance type, rather make sound machines look broken."""

CUT_OFF_TOGETHER = ("rack", "switch", "nvlink", "network_path", "power_feed")
"""The places whose machines can lose their network or power together."""

_NOWHERE = Topology()


def attributes_of(node: Node, at: datetime | None = None) -> tuple[Attribute, ...]:
    """Return the attributes of `node`, now or `at` an earlier time; unknown ones are left out.

    Only software and the server at which it registered change during the life of a node.
    """
    place, topology, zone = node.place, node.topology or _NOWHERE, zone_of(node)
    provider = "" if place is None else place.provider
    # Racks are numbered from one in each zone. Labels of the agent take precedence over the
    # provider's data.
    within = f"{zone}/" if zone else ""
    named = {"block": topology.block, "rack": topology.rack, "switch": topology.switch}
    named |= {kind: node.labels[label] for label, kind in LABELS.items() if label in node.labels}
    found: dict[str, str] = {
        "pool": node.pool or "",
        "provider": provider,
        "region": "" if place is None or not place.region else f"{provider}/{place.region}",
        "zone": zone,
        "instance_type": "" if place is None else f"{provider}/{place.instance_type}",
        **{kind: f"{within}{name}" for kind, name in named.items() if name},
        "fleet": FLEET if node.pool else "",
    }
    checks = [key for key in node.traits if key.startswith(CHECK_TRAIT)]
    for key in (*CHANGING, LINK, *checks):
        trait = node.traits.get(key)
        if trait is not None:
            found[key] = trait.value if at is None else trait.value_at(at)
    return tuple([each for each in found.items() if each[1]])


_BUDGETED: Mapping[str, Domain] = {str(domain): domain for domain in Domain}


def domains_of(node: Node, at: datetime | None = None) -> tuple[Attribute, ...]:
    """Return the attributes of `node` that a budget may limit."""
    return tuple([each for each in attributes_of(node, at) if each[0] in _BUDGETED])


def lasting_attributes(present: Iterable[Attribute], fault: Condition) -> set[Attribute]:
    """Return those of `present` that a node had when it showed `fault`, and that can explain it.

    Where its agent registered explains its silence, and nothing else.
    """
    return {
        each
        for each in present
        if each[0] not in CHANGING
        and not each[0].startswith(CHECK_TRAIT)
        and (each[0] != LINK or fault.check == HEARTBEAT)
    }


def changing_kinds(fault: Condition) -> tuple[str, ...]:
    """Return the kinds of software that can explain `fault`: its own check, and no other check."""
    own = CHECK_TRAIT + fault.check.partition("/")[0]
    return CHANGING if fault.check == HEARTBEAT else (*CHANGING, own)


def words_of(kind: str) -> str:
    """Return a kind of attribute in the words for operators."""
    if kind.startswith(CHECK_TRAIT):
        return f"{WORDS[CHECK_TRAIT]} {kind.removeprefix(CHECK_TRAIT)}"
    return WORDS.get(kind, kind)


def rank(kind: str) -> int:
    """Return the place of a kind of attribute among the others, in the order of `WORDS`."""
    return list(WORDS).index(CHECK_TRAIT if kind.startswith(CHECK_TRAIT) else kind)


def zone_of(node: Node) -> str:
    """Return the zone of `node` by its full name, or its region where no zone is known."""
    place = node.place
    if place is None or not (place.zone or place.region):
        return ""
    return "/".join(filter(None, (place.provider, place.region, place.zone)))


def describe(attribute: Attribute) -> str:
    """Return an attribute in words: `driver 570.86`, `rack us-east-1a/r7`, `the fleet`."""
    kind, value = attribute
    return f"the {WORDS[kind]}" if kind == "fleet" else f"{words_of(kind)} {value}"
