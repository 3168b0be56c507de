"""Why a thing is as it is: a story told backwards, each cause indented under its effect."""

from collections.abc import Iterator

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.events import kind_color
from navarch.cli.render.words import age, bold, cells, colored, moment, printable, wrapped
from navarch.ports.api import Step, Why

STEP = "  "


def render_why(why: Why, canvas: Canvas) -> str:
    """Return what `navarch why` prints."""
    return "\n".join(_story(why, canvas, ""))


def _story(why: Why, canvas: Canvas, indent: str) -> Iterator[str]:
    kind, _, name = why.about.partition("/")
    state = printable(why.state)
    yield f"{indent}{bold(f'{kind} {name}', on=canvas.color)} is {state}"
    for step in why.steps:
        yield from _step(step, canvas, indent + STEP)


def _step(step: Step, canvas: Canvas, indent: str) -> Iterator[str]:
    verb = step.kind.rpartition(".")[2].replace("_", " ")
    opening = f"{indent}{moment(step.at)}  {verb}: "
    hang = " " * (len(indent) + 4)
    first, *rest = wrapped(
        f"{printable(step.reason)} ({age(step.at, canvas.now)})", canvas.width, cells(opening)
    )
    # A long opening leaves little room beside it, so that the rest goes under it, further left.
    rest = wrapped(" ".join(rest), canvas.width, len(hang)) if rest else []
    shown = colored(verb, kind_color(step.kind), on=canvas.color)
    yield f"{indent}{moment(step.at)}  {shown}: {first}"
    yield from (hang + line for line in rest)
    for cause in step.because:
        yield f"{indent}{STEP}because"
        yield from _story(cause, canvas, indent + STEP + STEP)
