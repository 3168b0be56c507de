"""Policies: their rules, trials, and comparisons of two policies."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from navarch.cli.render.table import (
    COLORS,
    Canvas,
    Cell,
    Column,
    count,
    printable,
    render_table,
    timestamp,
    truncate,
)
from navarch.config.policy import rule_facts
from navarch.core.duration import render_duration
from navarch.health.policy.counterfactual import PolicyComparison, PolicyOutcome, PolicyTally
from navarch.health.policy.policy import Policy, Rule

SHOWN_MAX = 50
"""Maximum number of differences in text output; JSON has all of them."""


def _requirements(rule: Rule) -> str:
    return ", ".join(
        f"{name} {render_duration(value) if isinstance(value, timedelta) else str(value).lower()}"
        for name, value in rule_facts(rule).items()
    )


RULES: list[Column[Rule]] = [
    Column("Rule", lambda rule: rule.name),
    Column("Result", lambda rule: Cell(str(rule.result), COLORS.get(rule.result))),
    Column("Requires", _requirements, rank=2, optional=True),
    Column(
        "Condition", lambda rule: " ".join(rule.condition.split()), rank=1, width_min=20, wrap=True
    ),
]
TALLY: list[Column[tuple[str, int, int]]] = [
    Column("Events", lambda row: row[0]),
    Column("Old", lambda row: str(row[1]), right=True),
    Column("New", lambda row: str(row[2]), right=True),
    Column("Change", lambda row: f"{row[2] - row[1]:+d}" if row[2] != row[1] else "-", right=True),
]


def render_policy(policy: Policy, canvas: Canvas) -> str:
    """Return what `navarch policy show FILE` prints."""
    lines = [f"Policy {policy.name}"]
    if policy.description:
        lines.append(policy.description)
    return "\n".join([*lines, "", render_table(RULES, policy.rules, canvas)])


def render_trial(outcomes: Sequence[PolicyOutcome], broken: Sequence[str]) -> str:
    """Return what `navarch policy test` prints."""
    lines = [
        f"{f'{number}. ' if len(outcomes) > 1 else ''}{outcome.words} "
        f"({f'rule {outcome.rule}' if outcome.rule else 'no rule matches; the check decides'})"
        for number, outcome in enumerate(outcomes, start=1)
    ]
    lines += [f"could not be evaluated: {each}" for each in broken]
    return "\n".join(lines)


def render_comparison(
    comparison: PolicyComparison, old: Policy, new: Policy, canvas: Canvas
) -> str:
    """Return what `navarch policy diff` prints."""
    if comparison.since is None:
        return "No health events in that time: nothing to compare."
    differing = len(comparison.differences)
    parts = [
        f"{count(comparison.events, 'event')} since {timestamp(comparison.since)} UTC.",
        f"{differing or 'None'} judged differently by {new.name} than by {old.name}.",
        "",
        render_table(TALLY, _lines(comparison.old, comparison.new), canvas),
    ]
    for each in comparison.differences[:SHOWN_MAX]:
        event = f"{timestamp(each.at)}  {each.node}  {printable(each.what)}"
        parts += [
            "",
            event if canvas.width is None else truncate(event, canvas.width),
            f"  {each.old.words} -> {each.new.words}",
        ]
    if differing > SHOWN_MAX:
        parts.append(f"... and {differing - SHOWN_MAX} more; -o json has them all")
    return "\n".join(parts)


def _lines(old: PolicyTally, new: PolicyTally) -> Iterator[tuple[str, int, int]]:
    for word in ("unhealthy", "degraded", "healthy"):
        yield f"judged {word}", old.verdicts.get(word, 0), new.verdicts.get(word, 0)
    yield "acted on at once", old.fatal, new.fatal
    yield "nodes taken out", old.nodes_out, new.nodes_out
    for action in sorted({*old.actions, *new.actions} - {"none"}):
        words = action.replace("_", " ")
        yield f"action: {words}", old.actions.get(action, 0), new.actions.get(action, 0)
    if old.broken or new.broken:
        yield "rules that failed", old.broken, new.broken
