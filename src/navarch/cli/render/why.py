"""Explanations of state: steps newest first, each cause indented under its effect."""

import re
from collections.abc import Iterator, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.events import kind_color
from navarch.cli.render.formatting import age, bold, clock_time, colored, printable, wrap_text
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
