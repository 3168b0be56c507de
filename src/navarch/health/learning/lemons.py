"""Lemons: machines and GPUs that fail repeatedly."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.ids import NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.node import Node
from navarch.health.learning.rates import rate

WINDOW = timedelta(days=30)
"""How far back failures count: as long as incidents are kept."""

PRIOR_FAILURES = 1.0
"""The weight of the fleet's rate against a machine's own, in failures. With one, a single failure
makes no lemon, however short the machine has been in service."""

STRIKES_MIN = 2
TIMES_EXPECTED = 5.0
"""A lemon has failed at least twice, and at least five times as often as expected."""

_HARDWARE = frozenset({IncidentKind.HARDWARE, IncidentKind.FABRIC, IncidentKind.HOST})


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


def exposure_days(node: Node, *, now: datetime) -> float:
    """Return how many days of the window a node has been in service."""
    begun = node.registered_at
    if begun is None:
        return 0.0
    ended = node.since if node.gone else now
    return max((ended - max(begun, now - WINDOW)) / timedelta(days=1), 0.0)


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
