"""The state of reading one file: its variables, its paths and the problems found so far."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from navarch.config.document import Leaf, Tree, describe, resolve_tag
from navarch.config.errors import START, Place, Problem, Source
from navarch.core.errors import SecretError
from navarch.secrets.reference import Reference

_VARIABLE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadVariable:
    """A variable that cannot be expanded."""

    offset: int
    """Its index in the text."""
    message: str
    remedy: str


def escape(text: str) -> str:
    """Return the text that expands to `text`."""
    return text.replace("${", "$${")


def interpolate(text: str, environment: Mapping[str, str]) -> str | BadVariable:
    """Return the text with `${NAME}` and `${NAME:-default}` expanded.

    The default replaces a variable that is unset or empty.
    """
    done: list[str] = []
    end = 0
    for found in _VARIABLE.finditer(text):
        done.append(text[end : found.start()])
        end = found.end()
        value = _value(found, environment)
        if isinstance(value, BadVariable):
            return value
        done.append(value)
    return "".join([*done, text[end:]])


def _value(found: re.Match[str], environment: Mapping[str, str]) -> str | BadVariable:
    name, default = found["name"], found["default"]
    if found[0] == "$${":
        return "${"
    if name is None:
        return BadVariable(
            offset=found.start(),
            message="${ does not begin a variable here",
            remedy="write ${NAME} or ${NAME:-default}; for a plain ${ write $${",
        )
    if default is not None:
        return environment.get(name) or default
    if name not in environment:
        return BadVariable(
            offset=found.start(),
            message=f"the environment variable {name} is not set",
            remedy=f"set it, or write ${{{name}:-default}}; for a plain ${{{name}}} "
            f"write $${{{name}}}",
        )
    return environment[name]


PROBLEMS_MAX = 1_000
"""Reading stops here: a file with more problems is not a configuration with mistakes."""


MESSAGE_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """The content of a file that the configuration refers to."""

    text: str
    readable_by_others: bool = False


ReadFile: TypeAlias = Callable[[Path], FileText]
"""Raises OSError if the file cannot be read, ValueError if it is not text."""


ReadSecret: TypeAlias = Callable[[Reference, Mapping[str, str]], str]
"""Returns the secret behind a reference, given the environment, or raises SecretError."""


def no_files(_path: Path) -> FileText:
    """Refuse every file: the `read_file` of texts that may not name files."""
    raise FileNotFoundError(2, "there are no files here")


def no_references(reference: Reference, _environment: Mapping[str, str]) -> str:
    """Refuse every reference: the `read_secret` of texts that may not read secrets."""
    raise SecretError(f"{reference.scheme}: references are not read here")


class Refused(Exception):  # noqa: N818 - the file is wrong, not the program
    """Raised for a value that cannot be read, after its problem has been recorded."""


class TooManyProblems(Exception):  # noqa: N818 - as above
    """Raised when a file has more than PROBLEMS_MAX problems."""


@dataclass(slots=True, kw_only=True)
class ReadContext:
    """The inputs for reading one file, and the problems found so far."""

    source: Source
    folder: Path
    """The folder that relative paths start from."""
    environment: Mapping[str, str]
    read_file: ReadFile
    read_secret: ReadSecret
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    published: dict[str, object] = field(default_factory=dict)
    """Values of other parts of the file, for rules that compare parts."""

    def resolve_path(self, path: str) -> Path:
        """Return a path of the file: relative ones start from its folder, `~/` from HOME."""
        if path.startswith("~/") and "HOME" in self.environment:
            return Path(self.environment["HOME"]) / path[2:]
        return self.folder / path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The part of the file that is being read, as named in messages."""

    context: ReadContext
    subject: str = ""
    """The named block it belongs to, such as `pool "training"`."""
    label: str = ""
    """The key of the value."""
    home: Place = START
    """The place to report for something that is missing."""

    def within(self, label: str, *, home: Place | None = None, subject: str = "") -> "Scope":
        """Return the scope of a part."""
        return replace(self, label=label, home=home or self.home, subject=subject or self.subject)

    def refuse(self, at: Tree | Place, message: str, remedy: str = "") -> Refused:
        """Record a problem and return the exception, which the caller may raise."""
        if len(self.context.problems) >= PROBLEMS_MAX:
            raise TooManyProblems
        self.context.problems.append(self._problem(at, message, remedy))
        return Refused(message)

    def warn(self, at: Tree | Place, message: str, remedy: str = "") -> None:
        """Record a warning about something that probably does not work as intended."""
        if len(self.context.warnings) < PROBLEMS_MAX:
            self.context.warnings.append(self._problem(at, message, remedy))

    def wrong_type(self, at: Tree, noun: str, example: str) -> Refused:
        """Record that a value is of the wrong type and return the exception."""
        message = f"{self.label} must be {noun}, not {describe(at)}"
        return self.refuse(at, message, f"for example {self.label}: {example}" if example else "")

    def leaf(self, at: Tree, noun: str, example: str, *, literal: bool = False) -> Leaf:
        """Return a scalar with its variables expanded; refuse lists and mappings."""
        if not isinstance(at, Leaf):
            raise self.wrong_type(at, noun, example)
        if literal or "${" not in at.text:
            return at
        text = interpolate(at.text, self.context.environment)
        if isinstance(text, BadVariable):
            place = Place(at.place.line, at.place.column + text.offset + (not at.plain))
            raise self.refuse(place if "\n" not in at.text else at, text.message, text.remedy)
        tag = resolve_tag(text) if at.plain and text else "str"
        return replace(at, text=text, tag=tag, written=at.text)

    def _problem(self, at: Tree | Place, message: str, remedy: str) -> Problem:
        place = at if isinstance(at, Place) else at.place
        text = f"{self.subject}: {message}" if self.subject else message
        return self.context.source.problem(place, _fit(text), _fit(remedy))


def _fit(text: str) -> str:
    """Return a message that is short and safe to print, whatever value it quotes."""
    short = text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 3] + "..."
    return "".join(c if c.isprintable() else " " for c in short)
