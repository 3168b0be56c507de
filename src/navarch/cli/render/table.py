"""Tables that fit the terminal, and the formats of ages, prices and statuses in them."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, TypeVar

import click

from navarch.core.health import Health
from navarch.core.node import InstanceState, NodeStatus, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The width, the use of colours and the current time."""

    now: datetime
    width: int | None = None
    """None for unlimited: nothing is cut."""
    color: bool = False


COLORS = {
    NodeStatus.ACTIVE: "green",
    NodeStatus.CORDONED: "yellow",
    NodeStatus.DRAINING: "yellow",
    NodeStatus.UNHEALTHY: "red",
    NodeStatus.TERMINATED: "bright_black",
    Phase.REQUESTED: "cyan",
    Phase.BOOTING: "cyan",
    Phase.READY: "green",
    Phase.TERMINATING: "yellow",
    Phase.GONE: "bright_black",
    Health.HEALTHY: "green",
    Health.DEGRADED: "yellow",
    Health.UNKNOWN: "bright_black",
    InstanceState.PROVISIONING: "cyan",
    InstanceState.PENDING_REGISTRATION: "cyan",
    InstanceState.RUNNING: "green",
    InstanceState.FAILED: "red",
}


def colored(text: str, color: str | None, *, on: bool) -> str:
    """Return `text` in `color` if `on`."""
    return click.style(text, fg=color) if on and color and text else text


def bold(text: str, *, on: bool) -> str:
    """Return `text` in bold if `on`."""
    return click.style(text, bold=True) if on and text else text


def title(word: str) -> str:
    """Return an enum value in title case: `pending_registration` as Pending Registration."""
    return word.replace("_", " ").title()


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago `since` was, in the largest whole unit; Never for None."""
    return "Never" if since is None else f"{duration(now - since)} ago"


def duration(span: timedelta) -> str:
    """Return a duration in the largest whole unit."""
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < 86400:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d"


def exact_duration(span: timedelta) -> str:
    """Return a duration in full, such as `2m30s`."""
    seconds = max(0, int(span.total_seconds()))
    parts = [
        f"{seconds // size % cycle}{unit}"
        for unit, size, cycle in (("d", 86400, 10**6), ("h", 3600, 24), ("m", 60, 60), ("s", 1, 60))
        if seconds // size % cycle
    ]
    return "".join(parts) or "0s"


def timestamp(at: datetime) -> str:
    """Return a time in UTC to the second."""
    return at.strftime("%Y-%m-%d %H:%M:%S")


def time_and_age(at: datetime | None, now: datetime) -> str:
    """Return a time in UTC and how long ago it was; nothing for None."""
    return f"{timestamp(at)} UTC ({age(at, now)})" if at else ""


def clock_time(at: datetime, now: datetime) -> str:
    """Return a time of day, with the date unless it is today."""
    return at.strftime("%H:%M:%S") if at.date() == now.date() else timestamp(at)


def price(amount: Decimal) -> str:
    """Return an amount in dollars."""
    return f"${amount:,.2f}"


def count(number: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def gibibytes(number: float) -> str:
    """Return a number of bytes in GiB."""
    return f"{number / 2**30:.0f} GiB"


def printable(text: str) -> str:
    """Return `text` on one line without control characters, which machines could send."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def display_width(text: str) -> int:
    """Return the number of terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def truncate(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with an ellipsis if it is cut."""
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept) + display_width(character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def wrap_text(text: str, width: int | None, indent: int) -> list[str]:
    """Return `text` in lines that fit `width` columns after `indent`."""
    if width is None or width - indent < 20:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and display_width(lines[-1]) + 1 + display_width(word) > width - indent:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


T = TypeVar("T")

GAP = "  "


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a table cell, and its colour."""

    text: str
    color: str | None = None


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column: its cells, and how it gives way when there is no room."""

    name: str
    value: Callable[[T], Cell | str]
    """Returns the cell for one item of the table."""
    _: KW_ONLY
    rank: int = 0
    """The column with the highest rank is dropped first; rank 0 is never dropped."""
    width_min: int | None = None
    """The width to which the column may be cut; None if it must not be cut."""
    right: bool = False
    wrap: bool = False
    """Wrap text that does not fit, instead of cutting it; for the last column only."""
    optional: bool = False
    """Omit the column if it is empty in every row."""


def render_table(columns: Sequence[Column[T]], items: Iterable[T], canvas: Canvas) -> str:
    """Return a table with a header and a row for each item, no wider than the canvas."""
    rows = [[_cell(column.value(item)) for column in columns] for item in items]
    wanted = [
        max([display_width(column.name), *(display_width(row[i].text) for row in rows)])
        for i, column in enumerate(columns)
    ]
    kept = [
        i
        for i, column in enumerate(columns)
        if not column.optional or any(row[i].text for row in rows)
    ]
    widths = _fit(columns, wanted, kept, canvas.width)
    header = [Cell(column.name) for column in columns]
    lines = [_line(header, columns, widths, canvas, is_header=True)]
    lines += [
        _line(part, columns, widths, canvas)
        for row in rows
        for part in _parts(row, columns, widths)
    ]
    return "\n".join(lines)


def _parts(
    row: Sequence[Cell], columns: Sequence[Column[Any]], widths: dict[int, int]
) -> Iterator[list[Cell]]:
    """Yield the lines of a row: one, unless its last column wraps."""
    last = list(widths)[-1]
    if not columns[last].wrap:
        yield list(row)
        return
    first, *rest = wrap_text(row[last].text, widths[last], 0)
    yield [cell if i != last else Cell(first, cell.color) for i, cell in enumerate(row)]
    for text in rest:
        yield [Cell(" ") if i != last else Cell(text, cell.color) for i, cell in enumerate(row)]


def _cell(cell: Cell | str) -> Cell:
    found = cell if isinstance(cell, Cell) else Cell(cell)
    return Cell(printable(found.text), found.color)


def _fit(
    columns: Sequence[Column[Any]], wanted: Sequence[int], kept: list[int], width: int | None
) -> dict[int, int]:
    """Return the columns that fit when each is cut to its minimum width, and their widths.

    Wrapping columns shrink first, then by rank.
    """
    if width is None:
        return {i: wanted[i] for i in kept}
    least = {
        i: min(wanted[i], max(columns[i].width_min or wanted[i], display_width(columns[i].name)))
        for i in kept
    }
    while sum(least[i] for i in kept) + len(GAP) * (len(kept) - 1) > width:
        easiest = max(kept, key=lambda i: columns[i].rank)
        if columns[easiest].rank == 0:
            break
        kept = [i for i in kept if i != easiest]
    widths = {i: wanted[i] for i in kept}
    excess = sum(widths.values()) + len(GAP) * (len(kept) - 1) - width
    for i in sorted(kept, key=lambda i: (not columns[i].wrap, -columns[i].rank)):
        widths[i] = max(least[i], wanted[i] - max(excess, 0))
        excess -= wanted[i] - widths[i]
    return widths


def _line(
    row: Sequence[Cell],
    columns: Sequence[Column[Any]],
    widths: dict[int, int],
    canvas: Canvas,
    *,
    is_header: bool = False,
) -> str:
    parts = []
    for i, width in widths.items():
        text = truncate(row[i].text or "-" * (not columns[i].optional), width)
        pad = " " * (width - display_width(text))
        shown = (
            bold(text, on=canvas.color)
            if is_header
            else colored(text, row[i].color, on=canvas.color)
        )
        parts.append(pad + shown if columns[i].right else shown + pad)
    return GAP.join(parts).rstrip()
