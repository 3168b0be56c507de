"""Explanations of scheduling decisions, as text and as data."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from navarch.core.explanation import Attempt, Explanation

WIDTH: Final = 78
DOMAINS_SHOWN: Final = 5


def explanation_to_dict(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values; remedy steps omit empty fields."""
    plain = asdict(explanation)
    for remedy in plain["remedies"]:
        remedy["steps"] = [{k: v for k, v in step.items() if v} for step in remedy["steps"]]
    return plain


def format_explanation(explanation: Explanation) -> str:
    """Return an explanation as text, at most `WIDTH` columns wide."""
    lines = [*_wrap(explanation.summary, "")]
    lines += _section("decided in this cycle", explanation.decisions)
    other = [reason for reason in explanation.reasons if reason not in explanation.summary]
    lines += _section("reported reasons", other)
    if explanation.attempt is not None:
        refused = "refused on" if explanation.bound is None else "and would be refused on"
        lines += _attempt(explanation.attempt, refused)
    lines += _section("what would help", [remedy.says for remedy in explanation.remedies])
    return "\n".join(lines)


def _attempt(attempt: Attempt, refused: str) -> list[str]:
    if attempt.domains:
        return _domains(attempt)
    if attempt.placed == attempt.of:
        return []
    request = f"task {attempt.failed_task} requests {attempt.asks_for}; {refused}:"
    lines = ["", *_wrap(request, "")]
    for refusal in attempt.refusals:
        examples = ", ".join(refusal.examples)
        more = ", ..." if refusal.nodes > len(refusal.examples) else ""
        count = "1 node" if refusal.nodes == 1 else f"{refusal.nodes} nodes"
        where = f"{count} by" if refusal.nodes else "every possible node by"
        lines += _wrap(f"{where} {refusal.rule}: {refusal.reason}", "  ")
        if examples:
            lines += _wrap(f"({examples}{more})", "      ")
    if attempt.closest:
        words = "; ".join(f"{each.node} lacks {each.lacks}" for each in attempt.closest)
        lines += _wrap(f"closest: {words}", "  ")
    return lines


def _domains(attempt: Attempt) -> list[str]:
    """Return the number of tasks that each domain has room for, largest first."""
    known = [each for each in attempt.domains if each.room is not None]
    known.sort(key=lambda each: (-(each.room or 0), each.name))
    lines = ["", f"a task requests {attempt.asks_for}; of {attempt.of} tasks, there is room for"]
    lines += [f"  {each.room} within {each.name}" for each in known[:DOMAINS_SHOWN]]
    if len(known) > DOMAINS_SHOWN:
        lines.append(f"  and at most as many within {len(known) - DOMAINS_SHOWN} others")
    return lines


def _section(title: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    return ["", title, *(line for text in texts for line in _wrap(text, "  - "))]


def _wrap(text: str, start: str) -> list[str]:
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,  # node names and labels contain hyphens
    )
    return lines or [start]
