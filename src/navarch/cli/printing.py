"""Printing: nothing that a machine has sent may control the terminal of an operator."""

import json
import re
import shutil
import sys
from collections.abc import Callable

import click

from navarch.cli.render.table import display_width

_COLOR = re.compile(r"(\x1b\[(?:0|1|3[1236]|90)m)")
"""The sequences of this program: its colours, bold, and the end of both. Black would hide text."""


_COLUMNS = re.compile(r"^.*\S {2,}(?=\S)|^ +")
"""What precedes the last column of a line, or its indentation."""

_EXCERPT = re.compile(r" *\d* +\|")

NARROW = 20
"""The least columns in which text is broken; with fewer, the terminal breaks the line."""

HANG = 2
"""How far the second line of a sentence is indented."""


class _Replaced(dict[int, str]):
    """For `str.translate`: replaces each character that is not printable."""

    def __init__(self, replace: Callable[[str], str], *, kept: str) -> None:
        super().__init__({ord(character): character for character in kept})
        self._replace = replace

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = self[code] = character if character.isprintable() else self._replace(character)
        return shown


_SPACED = _Replaced(lambda _character: " ", kept="\n\t")
_ESCAPED = _Replaced(lambda character: json.dumps(character)[1:-1], kept="\n")


def visible(text: str) -> str:
    """Return `text` with spaces in place of what moves the cursor or hides and reorders text.

    Line breaks, tabs and the colours of this program stay.
    """
    parts = _COLOR.split(text)
    parts[::2] = [part.translate(_SPACED) for part in parts[::2]]
    return "".join(parts)


def one_line(text: str) -> str:
    """Return the visible part of `text` without line breaks: one row cannot pose as several."""
    return " ".join(visible(text).split("\n"))


def escaped(text: str) -> str:
    r"""Return JSON `text` with `\uXXXX` in place of every character that is not printable."""
    return text.translate(_ESCAPED)


def fold(text: str, width: int) -> str:
    """Return `text` with lines that fit `width` columns, broken between words.

    What follows stays in its column. Lines of a file, with their number and `|`, stay whole.
    """
    return "\n".join(_fold_line(line, width) for line in text.split("\n"))


def _fold_line(line: str, width: int) -> str:
    if display_width(_COLOR.sub("", line)) <= width or _EXCERPT.match(line):
        return line
    found = _COLUMNS.match(line)
    start = found[0] if found else ""
    indent = display_width(_COLOR.sub("", start))
    if width - indent < NARROW:
        return line
    lines, hang = [start], " " * (indent or HANG)
    for word in line[len(start) :].split():
        used = display_width(_COLOR.sub("", lines[-1]))
        if used > len(hang) and used + 1 + display_width(_COLOR.sub("", word)) > width:
            lines.append(hang)
        lines[-1] += word if not lines[-1] or lines[-1].endswith(" ") else f" {word}"
    return "\n".join(lines)


def terminal_width(*, err: bool) -> int | None:
    """Return the columns of the terminal that shows standard output or error; None without one."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def echo(
    text: str = "",
    *,
    err: bool = False,
    nl: bool = True,
    color: bool | None = None,
    width: int | None = None,
) -> None:
    """Print `text`, the visible part of it, in lines of `width`.

    Errors and warnings fit their terminal. Without a width, standard output is printed as it is.
    """
    shown = visible(text)
    columns = terminal_width(err=True) if err else width
    click.echo(shown if columns is None else fold(shown, columns), err=err, nl=nl, color=color)
