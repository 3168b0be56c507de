"""Bad hosts: machines that were returned because they were broken, and may come back."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health
from navarch.core.inventory import Inventory
from navarch.core.node import HOST_LABELS, Node

MACHINE = "machine"
"""The check that the control plane runs on every machine that registers."""

REMEMBERED = timedelta(days=90)
"""How long a returned machine counts as broken. Providers repair what is reported to them."""

_UUID = re.compile(r"[Gg][Pp][Uu]-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedMachine:
    """A machine that was returned, and why."""

    node: str
    at: datetime
    reason: str


def identities(inventory: Inventory, node: Node) -> tuple[str, ...]:
    """Return the names that identify a machine: those of its host and of its GPUs."""
    hosts = [inventory.labels.get(name, "") for name in HOST_LABELS]
    if node.topology is not None:
        hosts.append(node.topology.host)
    named = [f"{node.provider or ''}/{host}" for host in dict.fromkeys(hosts) if host]
    gpus = [gpu.uuid.lower() for gpu in inventory.gpus if _UUID.fullmatch(gpu.uuid)]
    return (*named, *gpus)


def hardware_faults(node: Node) -> list[Condition]:
    """Return the hardware conditions for which a node is being returned, if any."""
    if node.retiring is None or node.retiring.surplus or node.retiring.urgent:
        return []
    return [
        condition
        for condition in node.conditions
        # A missing heartbeat may be a network fault, which is no reason to avoid a machine.
        if condition.health is Health.UNHEALTHY and condition.check not in (HEARTBEAT, MACHINE)
    ]


def blamed_identities(
    conditions: Iterable[Condition], identities: Iterable[str]
) -> tuple[str, ...]:
    """Return the identities to remember: all, except GPUs that are not at fault."""
    named = list(identities)
    at_fault = {condition.facts.get("gpu", "").lower() for condition in conditions}
    if not at_fault <= set(named):
        return tuple(named)
    return tuple(name for name in named if name in at_fault or not _UUID.fullmatch(name))


def find_returned(
    identities: Iterable[str], known: Mapping[str, ReturnedMachine], node: Node, *, now: datetime
) -> CheckResult | None:
    """Return an unhealthy result if the machine was returned as broken before."""
    past = [known[name] for name in identities if name in known]
    found = [p for p in past if p.node != node.id and p.at > now - REMEMBERED]
    if not found:
        return None
    last = max(found, key=lambda given: given.at)
    return CheckResult(
        check=MACHINE,
        health=Health.UNHEALTHY,
        reason=f"returned as broken node {last.node} on {last.at:%Y-%m-%d}: {last.reason}"[:300],
        fatal=True,
        action="replace",
    )
