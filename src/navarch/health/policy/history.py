"""Findings in the journal, with all that another policy needs to judge them later."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.node import Node, Phase
from navarch.health.policy.engine import Verdict
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.policy import MachinePhase, Policy

FINDING = "health.finding"
"""The event kind of a journalled finding."""

CONDITIONS_MAX = 20

LABELS_MAX = 32
LABEL_MAX = 200
"""All labels are kept, since another policy may use any of them, but within limits: agents set
their labels freely and must not fill the journal."""

_FACT = "fact."
_LABEL = "label."
_NONE = "-"
_NOWHERE = Offering(provider=ProviderName(""), instance_type="", region="", zone="")
_TRUE = {True: "yes", False: ""}


def finding_event(
    occurrence: Occurrence, verdict: Verdict, policy: Policy, *, now: datetime, incident: str = ""
) -> Event:
    """Return the journal event for an occurrence and its verdict."""
    result, node = occurrence.result, occurrence.node
    place = node.place or _NOWHERE
    facts = {
        "check": result.check,
        "said": str(result.health),
        "said_fatal": _TRUE[result.fatal],
        "lasting": _TRUE[result.lasting],
        "said_action": result.action,
        "verdict": str(verdict.health),
        "fatal": _TRUE[verdict.fatal],
        "action": verdict.action,
        "rule": verdict.rule,
        "policy": policy.name,
        "broken": "; ".join(verdict.broken),
        "incident": incident,
        "at": occurrence.at.isoformat(),
        "machine_phase": str(occurrence.phase),
        "boot_id": node.boot_id,
        "pool": str(node.pool or ""),
        "provider": str(place.provider),
        "region": place.region,
        "zone": place.zone,
        "instance_type": place.instance_type,
        "gpus": str(node.gpus or ""),
        "health": str(node.health),
        "cordoned": _TRUE[node.cordoned is not None],
        "conditions": _written(node.conditions),
    }
    for name, value in list(node.labels.items())[:LABELS_MAX]:
        if len(name) + len(value) <= LABEL_MAX:
            facts[f"{_LABEL}{name}"] = value
    facts |= {f"{_FACT}{name}": value for name, value in result.facts.items() if name != "at"}
    return Event(
        at=now,
        about=about("node", node.id),
        kind=FINDING,
        reason=result.reason or f"{result.check} is {result.health}",
        because=(about("incident", incident),) if incident else (),
        facts={name: value for name, value in facts.items() if value},
    )


def occurrence_of(event: Event) -> Occurrence | None:
    """Return the occurrence that an event records, or None if it is of another kind."""
    facts = event.facts
    if event.kind != FINDING or "check" not in facts or "said" not in facts:
        return None
    at = event.at
    with suppress(ValueError):
        recorded = datetime.fromisoformat(facts.get("at", ""))
        at = at if recorded.tzinfo is None else recorded
    return Occurrence(
        result=CheckResult(
            check=facts["check"],
            health=Health(facts["said"]),
            reason=event.reason,
            fatal="said_fatal" in facts,
            lasting="lasting" in facts,
            action=facts.get("said_action", ""),
            facts={k.removeprefix(_FACT): v for k, v in facts.items() if k.startswith(_FACT)},
        ),
        node=_node(NodeId(event.about.partition("/")[2]), facts, at),
        at=at,
        phase=MachinePhase(facts.get("machine_phase", MachinePhase.BUSY)),
    )


def _node(name: NodeId, facts: Mapping[str, str], at: datetime) -> Node:
    """Return the node with the fields that a policy can use."""
    return Node(
        id=name,
        pool=PoolName(facts["pool"]) if "pool" in facts else None,
        phase=Phase.READY,
        since=at,
        created_at=at,
        registered_at=at,
        boot_id=facts.get("boot_id", ""),
        gpus=int(facts.get("gpus", "0")),
        health=Health(facts.get("health", Health.UNKNOWN)),
        cordoned="it was" if "cordoned" in facts else None,
        labels={k.removeprefix(_LABEL): v for k, v in facts.items() if k.startswith(_LABEL)},
        offering=Offering(
            provider=ProviderName(facts.get("provider", "")),
            instance_type=facts.get("instance_type", ""),
            region=facts.get("region", ""),
            zone=facts.get("zone", ""),
        ),
        conditions=tuple(_condition(part, at) for part in facts.get("conditions", "").split(";"))
        if facts.get("conditions")
        else (),
    )


def _written(conditions: Sequence[Condition]) -> str:
    parts: list[str] = []
    for condition in conditions[:CONDITIONS_MAX]:
        code, gpu = (condition.facts.get(name) or _NONE for name in ("code", "gpu"))
        words = (str(condition.health), condition.check, code, gpu)
        if not any(";" in word or " " in word for word in words):
            parts.append(" ".join(words))
    return ";".join(parts)


def _condition(written: str, at: datetime) -> Condition:
    health, check, *rest = written.split(" ")
    if not rest:
        # The format before codes and GPUs were written: take them from an XID's name.
        name, _, place = check.partition("/")
        code, _, gpu = place.partition("/")
        rest = [code, gpu] if name == "xid" and gpu else []
    known = {key: x for key, x in zip(("code", "gpu"), rest, strict=False) if x != _NONE}
    return Condition(check=check, health=Health(health), reason="", since=at, facts=known)
