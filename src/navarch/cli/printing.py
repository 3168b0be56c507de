"""Printing: nothing that a machine has sent may control the terminal of an operator."""

import json
import re
from collections.abc import Callable

import click

_COLOR = re.compile(r"(\x1b\[(?:0|1|3[1236]|90)m)")
"""The sequences of this program: its colours, bold, and the end of both. Black would hide text."""


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


def echo(text: str = "", *, err: bool = False, nl: bool = True, color: bool | None = None) -> None:
    """Print `text`, the visible part of it."""
    click.echo(visible(text), err=err, nl=nl, color=color)
