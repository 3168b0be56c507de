"""Bad hosts: machines that were given back because they were broken, and may come again."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from navarch.core.health import HEARTBEAT, UNHEALTHY, CheckResult, Condition, Health
from navarch.core.inventory import Inventory
from navarch.core.node import HOST_LABELS, Node

MACHINE = "machine"
"""The check that the control plane makes of every machine that introduces itself."""

REMEMBERED = timedelta(days=90)
"""For how long a machine is held to be the one it was. Providers mend what they are told of."""

_UUID = re.compile(r"[Gg][Pp][Uu]-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_uuid_of = attrgetter("uuid")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedMachine:
    """Why a machine was not kept."""

    node: str
    at: datetime
    reason: str


def identities(inventory: Inventory, node: Node) -> tuple[str, ...]:
    """Return the names by which a machine can be known again: its host's, and its GPUs'."""
    labels, topology = inventory.labels, node.topology
    hosts = dict.fromkeys(filter(None, map(labels.get, HOST_LABELS)))
    if topology is not None and topology.host:
        hosts[topology.host] = None
    named = [f"{node.provider or ''}/{host}" for host in hosts]
    gpus = filter(_UUID.fullmatch, map(_uuid_of, inventory.gpus))
    return (*named, *map(str.lower, gpus))


def hardware_faults(node: Node) -> list[Condition]:
    """Return what of a node's hardware is the reason why it is given back, if it is."""
    if node.retiring is None or node.retiring.surplus or node.retiring.urgent:
        return []
    return [
        condition
        for condition in node.conditions
        # Silence may be the network's fault, and is no reason to shun a machine.
        if condition.health is UNHEALTHY and condition.check not in (HEARTBEAT, MACHINE)
    ]


def blamed_identities(
    conditions: Iterable[Condition], identities: Iterable[str]
) -> tuple[str, ...]:
    """Return the names to remember: all of them, less the GPUs that others were blamed for."""
    named = list(identities)
    guilty = {condition.facts.get("gpu", "").lower() for condition in conditions}
    if not guilty <= set(named):
        return tuple(named)
    return tuple(name for name in named if name in guilty or not _UUID.fullmatch(name))


def find_returned(
    identities: Iterable[str], known: Mapping[str, ReturnedMachine], node: Node, *, now: datetime
) -> CheckResult | None:
    """Return what is held against a machine that was here before, and given back as broken."""
    past = [known[name] for name in identities if name in known]
    found = [p for p in past if p.node != node.id and p.at > now - REMEMBERED]
    if not found:
        return None
    last = max(found, key=lambda given: given.at)
    return CheckResult(
        check=MACHINE,
        health=Health.UNHEALTHY,
        reason=f"given back as {last.node} on {last.at:%Y-%m-%d}: {last.reason}"[:300],
        fatal=True,
        action="replace",
    )
