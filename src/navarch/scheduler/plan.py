"""The outcome of a cycle as text and as JSON."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from navarch.scheduler.cycle import CycleResult
from navarch.scheduler.framework.decision import (
    Bind,
    Decision,
    Evict,
    MarkStale,
    MarkStarted,
    Nominate,
    Withdraw,
)
from navarch.scheduler.model.cluster import Device

REASONS_SHOWN = 3
"""How many different reasons a text names for one pending job."""


def render_decision(decision: Decision) -> dict[str, Any]:
    """Return a decision as plain values."""
    fields = decision._asdict() if isinstance(decision, Bind) else asdict(decision)
    values = {"decision": type(decision).__name__.lower(), **fields}
    return {key: _plain(value) for key, value in values.items()}


def render_result(result: CycleResult) -> dict[str, Any]:
    """Return the outcome of a cycle as plain values, with a digest that is equal for equal ones."""
    decisions = [render_decision(decision) for decision in result.decisions]
    return {
        "decisions": decisions,
        "pending": {name: reasons(result, name) for name in sorted(_pending(result))},
        "gave_up": [asdict(each) for each in result.gave_up],
        "digest": digest(decisions),
    }


def digest(decisions: list[dict[str, Any]]) -> str:
    """Return a short text that is the same for the same decisions in the same order."""
    text = json.dumps(decisions, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def describe(decision: Decision) -> str:
    """Return a decision as a sentence."""
    match decision:
        case Bind():
            shared = f", sharing {', '.join(decision.gpu_groups)}" if decision.gpu_groups else ""
            return f"start {decision.task} on {decision.node}{shared}"
        case Evict():
            return f"stop {decision.task} on {decision.node}: {decision.reason}"
        case Nominate():
            return f"keep a place on {decision.node} for {decision.task}"
        case Withdraw():
            return f"give up the place on {decision.node} for {decision.task}: {decision.reason}"
        case MarkStarted():
            return f"note that {decision.job} started"
        case MarkStale():
            state = "has too few members" if decision.since else "has enough members again"
            return f"note that {decision.job} {state}"


def render_plan(result: CycleResult) -> str:
    """Return what would happen, one line per decision, then why jobs stay pending."""
    lines = [describe(decision) for decision in result.decisions] or ["nothing to do"]
    for name in sorted(_pending(result)):
        found = reasons(result, name)
        more = f" (and {len(found) - REASONS_SHOWN} more)" if len(found) > REASONS_SHOWN else ""
        lines.append(f"{name} stays pending: {'; '.join(found[:REASONS_SHOWN])}{more}")
    lines += [
        f"{each.action} gave up at job {each.job} after {each.reason}, and tried no job behind it"
        for each in result.gave_up
    ]
    return "\n".join(lines)


def reasons(result: CycleResult, job: str) -> list[str]:
    """Return why a job is pending: reasons for the job, then per task, then counted over nodes."""
    found = [refusal.render().strip() for refusal in result.unschedulable_jobs.get(job, ())]
    counts: dict[str, int] = {}
    for of_task in result.unschedulable_tasks.get(job, {}).values():
        for refusal in of_task:
            if refusal.node is None:
                found.append(f"{refusal.task}: {refusal.reason}")
            else:
                counts[refusal.reason] = counts.get(refusal.reason, 0) + 1
    found += [f"{count} x {text}" for text, count in sorted(counts.items())]
    return list(dict.fromkeys(found))


def _pending(result: CycleResult) -> set[str]:
    return set(result.unschedulable_jobs) | set(result.unschedulable_tasks)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Device):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in sorted(value.items())}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value
