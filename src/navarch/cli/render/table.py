"""Tables that fit the terminal: drop the least important columns, then cut long texts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import (
    bold,
    colored,
    display_width,
    printable,
    truncate,
    wrap_text,
)

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
    kept = _fitting_columns(columns, wanted, kept, canvas.width)
    widths = _column_widths(columns, wanted, kept, canvas.width)
    header = [Cell(column.name) for column in columns]
    lines = [_line(header, columns, kept, widths, canvas, is_header=True)]
    lines += [
        _line(part, columns, kept, widths, canvas)
        for row in rows
        for part in _parts(row, columns, kept, widths)
    ]
    return "\n".join(lines)


def _parts(
    row: Sequence[Cell], columns: Sequence[Column[Any]], kept: Sequence[int], widths: dict[int, int]
) -> Iterator[list[Cell]]:
    """Yield the lines of a row: one, unless its last column wraps."""
    last = kept[-1]
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


def _fitting_columns(
    columns: Sequence[Column[Any]], wanted: Sequence[int], kept: list[int], width: int | None
) -> list[int]:
    """Return the columns that fit when each is cut to its minimum width."""
    if width is None:
        return kept
    least = {
        i: min(wanted[i], max(columns[i].width_min or wanted[i], display_width(columns[i].name)))
        for i in kept
    }
    while sum(least[i] for i in kept) + len(GAP) * (len(kept) - 1) > width:
        easiest = max(kept, key=lambda i: columns[i].rank)
        if columns[easiest].rank == 0:
            break
        kept = [i for i in kept if i != easiest]
    return kept


def _column_widths(
    columns: Sequence[Column[Any]], wanted: Sequence[int], kept: Sequence[int], width: int | None
) -> dict[int, int]:
    """Return the width of each column; wrapping columns shrink first, then by rank."""
    widths = {i: wanted[i] for i in kept}
    if width is None:
        return widths
    excess = sum(widths.values()) + len(GAP) * (len(kept) - 1) - width
    for i in sorted(kept, key=lambda i: (not columns[i].wrap, -columns[i].rank)):
        least = columns[i].width_min
        if excess > 0 and least is not None:
            narrow = max(
                min(wanted[i], max(least, display_width(columns[i].name))), widths[i] - excess
            )
            excess -= widths[i] - narrow
            widths[i] = narrow
    return widths


def _line(
    row: Sequence[Cell],
    columns: Sequence[Column[Any]],
    kept: Sequence[int],
    widths: dict[int, int],
    canvas: Canvas,
    *,
    is_header: bool = False,
) -> str:
    parts = []
    for i in kept:
        text = truncate(row[i].text or "-" * (not columns[i].optional), widths[i])
        pad = " " * (widths[i] - display_width(text))
        shown = (
            bold(text, on=canvas.color)
            if is_header
            else colored(text, row[i].color, on=canvas.color)
        )
        parts.append(pad + shown if columns[i].right else shown + pad)
    return GAP.join(parts).rstrip()
