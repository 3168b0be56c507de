"""Trials: how policies judge an XID error that did not happen."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.core.health import CheckResult
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.health.checks.xid import assess_xid, describe_xid, label
from navarch.health.policy.engine import Engine, Match, PolicySet
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.policy import MachinePhase
from navarch.ports.policies import XidRuling

TIMES_MAX = 20
"""Rules that need more occurrences than this are not tried."""


def simulate_xid(
    code: int, text: str, *, at: datetime, phase: MachinePhase, sources: str = "kmsg"
) -> Occurrence:
    """Return an XID error on a GPU of a node that does not exist."""
    assessment = assess_xid(code, text)
    result = CheckResult(
        check=f"xid/{code}/GPU-0",
        health=assessment.health,
        reason=f"{label(code)} on GPU 0: {describe_xid(assessment, text)}",
        fatal=assessment.fatal,
        lasting=True,
        action=str(assessment.action),
        facts={
            "code": str(code),
            "class": str(assessment.entry.origin),
            "gpu": "GPU-0",
            "gpu_index": "0",
            "text": text,
            "sources": sources,
            "pid": str(at.second),
        },
    )
    node = Node(id=NodeId("node-0"), pool=None, phase=Phase.READY, since=at, created_at=at)
    return Occurrence(result=result, node=node, at=at, phase=phase)


def rule_on_xid(policies: PolicySet, code: int, text: str, now: datetime) -> list[XidRuling]:
    """Return what each policy does: first on a busy machine, then where that differs."""
    found = list(_rulings(policies.fleet, (), code, text, now))
    # Each pool has an engine of its own, also if its policy is that of another.
    for revision, engine in {its.revision: its for its in policies.pools.values()}.items():
        alike = [name for name, its in policies.pools.items() if its.revision == revision]
        found += _rulings(engine, tuple(sorted(alike)), code, text, now)
    return found


def _rulings(
    engine: Engine, pools: tuple[str, ...], code: int, text: str, now: datetime
) -> Iterator[XidRuling]:
    """Yield the verdicts of one policy: when busy, then later ones, then those in other phases."""
    first = _ruling(engine, pools, simulate_xid(code, text, at=now, phase=MachinePhase.BUSY))
    yield first
    yield from _on_repetition(engine, first, code, text, now)
    for phase in MachinePhase:
        other = _ruling(engine, pools, simulate_xid(code, text, at=now, phase=phase))
        if _outcome(other) != _outcome(first):
            yield other


def _on_repetition(
    engine: Engine, first: XidRuling, code: int, text: str, now: datetime
) -> Iterator[XidRuling]:
    """Yield the verdicts that change when the error repeats on a busy machine."""
    most = max((rule.count for rule in engine.policy.rules if rule.within), default=1)
    last = first
    beside: tuple[Match, ...] = ()
    for times in range(1, min(most, TIMES_MAX) + 1):
        at = now + timedelta(seconds=times)
        seen = simulate_xid(code, text, at=at, phase=MachinePhase.BUSY)
        ruling = replace(_ruling(engine, first.pools, seen, beside), times=times)
        beside += engine.judge(seen, beside=beside).matches
        if _outcome(ruling) != _outcome(last):
            yield ruling
        last = ruling


def _ruling(
    engine: Engine, pools: tuple[str, ...], seen: Occurrence, beside: Sequence[Match] = ()
) -> XidRuling:
    # Nothing is noted: a trial must not count towards the rules of the fleet.
    verdict = engine.judge(seen, beside=beside)
    return XidRuling(
        policy=engine.policy.name,
        pools=pools,
        phase=str(seen.phase),
        health=verdict.health,
        fatal=verdict.fatal,
        action=verdict.action,
        rule=verdict.rule,
    )


def _outcome(ruling: XidRuling) -> tuple[object, ...]:
    return ruling.health, ruling.fatal, ruling.action
