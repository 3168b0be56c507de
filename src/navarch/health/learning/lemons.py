"""Machines and GPUs that fail repeatedly, hosts that come back broken, and failure rates."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import log, sqrt

from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.instance import Inventory
from navarch.core.node import HOST_LABELS, Node

Z95 = 1.959964
"""The 97.5th percentile of the normal distribution: 95 % lie within this many deviations."""

WINDOW = timedelta(days=30)
"""How far back failures count: as long as incidents are kept."""

PRIOR_FAILURES = 1.0
"""The weight of the fleet's rate against a machine's own, in failures. With one, a single failure
makes no lemon, however short the machine has been in service."""

STRIKES_MIN = 2
TIMES_EXPECTED = 5.0
"""A lemon has failed at least twice, and at least five times as often as expected."""

_HARDWARE = frozenset({IncidentKind.HARDWARE, IncidentKind.FABRIC, IncidentKind.HOST})

MACHINE = "machine"
"""The check that the control plane runs on every machine that registers."""

REMEMBERED = timedelta(days=90)
"""How long a returned machine counts as broken. Providers repair what is reported to them."""

_UUID = re.compile(r"[Gg][Pp][Uu]-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Failures per 1,000 node-days, with a 95 % confidence interval."""

    failures: int
    node_days: float
    per_1000: float
    low: float
    high: float


def rate(failures: int, node_days: float) -> Rate:
    """Return the rate of `failures` over `node_days`.

    The interval is that of a Poisson count, by the Wilson-Hilferty approximation of the Gamma
    distribution, which is exact to two percent. Without exposure it has no upper end.
    """
    if node_days <= 0:
        return Rate(failures=failures, node_days=0.0, per_1000=0.0, low=0.0, high=float("inf"))
    scale = 1000.0 / node_days
    return Rate(
        failures=failures,
        node_days=node_days,
        per_1000=failures * scale,
        low=_gamma_point(failures, -Z95) * scale if failures else 0.0,
        high=_gamma_point(failures + 1, Z95) * scale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lemon:
    """How much worse than the rest of the fleet a node is, or one GPU of it."""

    node: NodeId
    score: float
    """Its estimated failure rate, as a multiple of the fleet's."""
    strikes: int
    is_lemon: bool
    gpu: str = ""
    """The GPU's UUID; empty for the whole machine, and for a slot that has held several GPUs."""
    slot: str = ""
    """The PCI address of the slot, if known."""
    host: str = ""
    """The physical machine, if known. Its strikes count for every node that was placed on it."""
    causes: tuple[str, ...] = ()
    """The titles of its incidents, latest first, without duplicates."""


def is_strike(incident: Incident) -> bool:
    """Return whether an incident counts against the machine rather than its programs."""
    return incident.kind in _HARDWARE and bool(incident.action) and incident.action != "none"


def score_lemons(
    nodes: Mapping[NodeId, Node], incidents: Iterable[Incident], *, now: datetime
) -> list[Lemon]:
    """Return machines with a strike, and GPUs and slots with two, worst first.

    Strikes under an earlier node of the same physical machine count, and so do strikes in the same
    slot with another GPU: then the GPU is hardly the cause.

    The score is the mean of a Gamma distribution whose prior is the fleet's rate with the weight of
    one failure. The time in service matters only for machines that have failed.
    """
    strikes = [i for i in incidents if is_strike(i) and i.last_at > now - WINDOW]
    exposure = {name: exposure_days(node, now=now) for name, node in nodes.items()}
    fleet = rate(len(strikes), sum(exposure.values())).per_1000 / 1000.0
    if not strikes or fleet <= 0:
        return []
    found: list[Lemon] = []
    by_node: dict[NodeId, list[Incident]] = {}
    by_host: dict[str, list[Incident]] = {}
    for incident in strikes:
        by_node.setdefault(incident.node, []).append(incident)
        if incident.host:
            by_host.setdefault(incident.host, []).append(incident)
    for name, node in nodes.items():
        mine = [*by_node.get(name, ())]
        mine += [other for other in by_host.get(node.host, ()) if other.node != name]
        if node.gone or not mine:
            continue
        # The machine has been known at least since its first strike, under any node.
        first = max(min(incident.opened_at for incident in mine), now - WINDOW)
        expected = max(exposure[name], (now - first) / timedelta(days=1)) * fleet
        found.append(_lemon(node, mine, expected))
        found += _parts(node, mine, expected / max(node.gpus or 8, 1))
    return sorted(found, key=lambda each: (-each.score, each.node, each.slot, each.gpu))


def exposure_days(node: Node, *, now: datetime) -> float:
    """Return how many days of the window a node has been in service."""
    begun = node.registered_at
    if begun is None:
        return 0.0
    ended = node.since if node.gone else now
    return max((ended - max(begun, now - WINDOW)) / timedelta(days=1), 0.0)


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


def _parts(node: Node, strikes: list[Incident], expected: float) -> Iterator[Lemon]:
    """Yield the slots with two strikes, and the GPUs with two in an unknown slot."""
    for slot in dict.fromkeys(slot for incident in strikes for slot in incident.slots):
        hit = [incident for incident in strikes if slot in incident.slots]
        gpus = {gpu for incident in hit if len(incident.gpus) == 1 for gpu in incident.gpus}
        if len(hit) >= STRIKES_MIN:
            gpu = gpus.pop() if len(gpus) == 1 else ""
            yield _lemon(node, hit, expected, gpu=gpu, slot=slot)
    unplaced = [incident for incident in strikes if not incident.slots]
    for gpu in dict.fromkeys(gpu for incident in unplaced for gpu in incident.gpus):
        hit = [incident for incident in unplaced if gpu in incident.gpus]
        if len(hit) >= STRIKES_MIN:
            yield _lemon(node, hit, expected, gpu=gpu)


def _lemon(
    node: Node, strikes: list[Incident], expected: float, *, gpu: str = "", slot: str = ""
) -> Lemon:
    latest = sorted(strikes, key=lambda incident: incident.opened_at, reverse=True)
    return Lemon(
        node=node.id,
        gpu=gpu,
        slot=slot,
        host=node.host,
        score=(len(strikes) + PRIOR_FAILURES) / (expected + PRIOR_FAILURES),
        strikes=len(strikes),
        is_lemon=len(strikes) >= max(STRIKES_MIN, TIMES_EXPECTED * expected),
        causes=tuple(dict.fromkeys(incident.title for incident in latest))[:3],
    )


def _gamma_point(shape: float, z: float) -> float:
    if shape == 1:
        return -log(0.975 if z < 0 else 0.025)
    return float(shape * max(1 - 1 / (9 * shape) + z / (3 * sqrt(shape)), 0.0) ** 3)
