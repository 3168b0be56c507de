"""Reading: one pass over one file, and what it finds wrong on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from navarch.config.interpolation import Misuse, has_variables, interpolate
from navarch.config.place import START, Place
from navarch.config.problem import Problem
from navarch.config.resolution import resolve_tag
from navarch.config.source import Source
from navarch.config.tree import Leaf, Tree, describe

PROBLEMS_MAX = 1_000
"""A file with more is not a configuration with mistakes; reading on would only cost time."""


MESSAGE_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """What a file that the configuration points at holds."""

    text: str
    readable_by_others: bool = False


ReadFile: TypeAlias = Callable[[Path], FileText]
"""Raises OSError if the file cannot be read, ValueError if it is not text."""


class Refused(Exception):  # noqa: N818  the file is at fault, not the program
    """Nothing can be made of this part; the problem has been noted."""


class TooManyProblems(Exception):  # noqa: N818  as above
    """It is no use to read on."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """What a pass over a file needs, and what it has found so far."""

    source: Source
    folder: Path
    """Where relative paths start."""
    environment: Mapping[str, str]
    read_file: ReadFile
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    context: dict[str, object] = field(default_factory=dict)
    """What other parts of the file have turned out to be, for rules that compare parts."""

    def beside(self, path: str) -> Path:
        """Return where a path in the file leads: relative ones start from the file's folder."""
        if path.startswith("~/") and "HOME" in self.environment:
            return Path(self.environment["HOME"]) / path[2:]
        return self.folder / path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where in the file a value is being read, in words for messages."""

    reading: Reading
    subject: str = ""
    """The thing it is about, such as `pool "training"`."""
    label: str = ""
    """The key it is the value of."""
    home: Place = START
    """Where to point for something that is not there."""

    def within(self, label: str, *, home: Place | None = None, subject: str = "") -> "Scope":
        """Return the scope of a part."""
        return replace(self, label=label, home=home or self.home, subject=subject or self.subject)

    def refuse(self, at: Tree | Place, message: str, remedy: str = "") -> Refused:
        """Note a problem; the caller raises what is returned, or goes on without."""
        if len(self.reading.problems) >= PROBLEMS_MAX:
            raise TooManyProblems
        self.reading.problems.append(self._problem(at, message, remedy))
        return Refused(message)

    def warn(self, at: Tree | Place, message: str, remedy: str = "") -> None:
        """Note something that works, but probably not as intended."""
        if len(self.reading.warnings) < PROBLEMS_MAX:
            self.reading.warnings.append(self._problem(at, message, remedy))

    def wrong_type(self, at: Tree, noun: str, example: str) -> Refused:
        """Note that a value is of the wrong kind."""
        message = f"{self.label} must be {noun}, not {describe(at)}"
        return self.refuse(at, message, f"for example {self.label}: {example}" if example else "")

    def leaf(self, at: Tree, noun: str, example: str, *, literal: bool = False) -> Leaf:
        """Return a scalar with variables put in; anything else is of the wrong kind."""
        if not isinstance(at, Leaf):
            raise self.wrong_type(at, noun, example)
        if literal or not has_variables(at.text):
            return at
        text = interpolate(at.text, self.reading.environment)
        if isinstance(text, Misuse):
            place = Place(at.place.line, at.place.column + text.offset + (not at.plain))
            raise self.refuse(place if "\n" not in at.text else at, text.message, text.remedy)
        tag = resolve_tag(text) if at.plain and text else "str"
        return replace(at, text=text, tag=tag, written=at.text)

    def _problem(self, at: Tree | Place, message: str, remedy: str) -> Problem:
        place = at if isinstance(at, Place) else at.place
        text = f"{self.subject}: {message}" if self.subject else message
        return self.reading.source.problem(place, _fit(text), _fit(remedy))


def _fit(text: str) -> str:
    """Return a message fit for a terminal, whatever value it quotes."""
    short = text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."
    return "".join(c if c.isprintable() else " " for c in short)
