"""Explanations of states and of scheduling decisions."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from navarch.cli.render.events import kind_color
from navarch.cli.render.table import (
    Canvas,
    age,
    bold,
    clock_time,
    colored,
    count,
    printable,
    wrap_text,
)
from navarch.core.event import Attempt, Explanation
from navarch.ports.api import Step, Why

STEP = "  "


def render_why(why: Why, canvas: Canvas) -> str:
    """Return what `navarch why` prints: newest first, times in UTC."""
    heading = _heading(why, canvas)
    if why.steps:
        last = age(why.steps[0].at, canvas.now)
        heading += f" (last change {last}; newest first, times in UTC)"
    return "\n".join([heading, *_steps(why, canvas, "")])


def _heading(why: Why, canvas: Canvas) -> str:
    kind, _, name = why.about.partition("/")
    return f"{bold(f'{kind} {name}', on=canvas.color)} is {printable(why.state)}"


def _steps(why: Why, canvas: Canvas, indent: str) -> Iterator[str]:
    indent += STEP
    for step in _folded(why.steps):
        verb = step.kind.rpartition(".")[2].replace("_", " ")
        at = clock_time(step.at, canvas.now)
        hang = indent + " " * (len(at) + len(STEP))
        first, *rest = wrap_text(f"{verb}: {printable(step.reason)}", canvas.width, len(hang))
        shown = colored(verb, kind_color(step.kind), on=canvas.color)
        yield f"{indent}{at}{STEP}{shown}{first.removeprefix(verb)}"
        yield from (hang + line for line in rest)
        for detail in step.details:
            yield from (hang + line for line in _detail(detail, canvas, hang))
        for cause in step.because:
            yield f"{hang}because {_heading(cause, canvas)}"
            yield from _steps(cause, canvas, hang)


_TIMES = re.compile(r" \(\d+ times in a row\)$")


def _folded(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, keeping only the newest of a run of equal ones."""
    last: tuple[str, str] | None = None
    for step in steps:
        current = step.kind, _TIMES.sub("", step.reason)
        if current != last or step.because:
            yield step
        last = current


def _detail(line: str, canvas: Canvas, hang: str) -> Iterator[str]:
    """Yield one line of a table, with its continuation lines indented."""
    first, *rest = wrap_text(printable(line), canvas.width, len(hang) + len(STEP))
    # Wrapping drops the leading space that aligns rows without an arrow.
    yield first if first.startswith("→") else STEP + first.lstrip()
    yield from (STEP * 2 + more for more in rest)


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
        where = count(refusal.nodes, "node") if refusal.nodes else "every possible node"
        lines += _wrap(f"{where} by {refusal.rule}: {refusal.reason}", "  ")
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
