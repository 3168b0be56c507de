"""An explanation, for people to read and for programs to parse."""

import textwrap
from dataclasses import asdict
from typing import Any, Final

from navarch.core.explanation import Attempt, Explanation

WIDTH: Final = 78


def render_explanation(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values."""
    return asdict(explanation)


def tell_explanation(explanation: Explanation) -> str:
    """Return an explanation as text that fits a terminal."""
    lines = [*_wrap(explanation.summary, "")]
    for title, texts in (
        ("decided in this cycle", explanation.decisions),
        ("what was said", explanation.reasons),
    ):
        lines += _section(title, texts)
    if explanation.attempt is not None:
        lines += _attempt(explanation.attempt)
    lines += _section("what would help", explanation.remedies)
    return "\n".join(lines)


def _attempt(attempt: Attempt) -> list[str]:
    if attempt.placed == attempt.of:
        return []
    lines = ["", f"task {attempt.failed_task} asks for {attempt.asks_for}; refused on:"]
    for refusal in attempt.refusals:
        examples = ", ".join(refusal.examples)
        more = ", ..." if refusal.nodes > len(refusal.examples) else ""
        count = "1 node" if refusal.nodes == 1 else f"{refusal.nodes} nodes"
        where = f"{count} by" if refusal.nodes else "every node there could be, by"
        lines += _wrap(f"{where} {refusal.rule}: {refusal.reason}", "  ")
        if examples:
            lines += _wrap(f"({examples}{more})", "      ")
    if attempt.closest:
        words = "; ".join(f"{each.node} lacks {each.lacks}" for each in attempt.closest)
        lines += _wrap(f"closest: {words}", "  ")
    return lines


def _section(title: str, texts: tuple[str, ...]) -> list[str]:
    if not texts:
        return []
    return ["", title, *(line for text in texts for line in _wrap(text, "  - "))]


def _wrap(text: str, start: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)) or [
        start
    ]
