"""Errors in a configuration: where they are, what is wrong and what would be right."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from navarch.config.secret import MASK
from navarch.core.errors import NavarchError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and a column, both counted from one as in editors."""

    line: int
    column: int


START = Place(1, 1)


SHOWN_MAX = 100
"""Problems shown in full; further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error or warning about a configuration."""

    source: str
    message: str
    place: Place | None = None
    """None if there is no text to point at, as for a missing file."""
    excerpt: str = ""
    """The line in question with a caret below it, secrets masked."""
    remedy: str = ""
    """What to write instead."""

    def __str__(self) -> str:
        where = f":{self.place.line}:{self.place.column}" if self.place else ""
        lines = [f"{self.source}{where}: {self.message}"]
        if self.excerpt:
            lines.append(self.excerpt)
        if self.remedy:
            lines.append(f"  help: {self.remedy}")
        return "\n".join(lines)


def by_place(problem: Problem) -> tuple[int, int]:
    """Return the key that sorts problems in the order of the file."""
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


class ConfigError(NavarchError):
    """A configuration that cannot be used, with every problem found in it."""

    def __init__(self, problems: Sequence[Problem], *, stage: str = "invalid config") -> None:
        assert problems, "an error needs a reason"
        self.problems = tuple(problems)
        self.stage = stage
        """The step that failed: reading, parsing or checking."""
        count = len(self.problems)
        number = "1 problem" if count == 1 else f"{count} problems"
        parts = [f"{stage}: {number}", *map(str, self.problems[:SHOWN_MAX])]
        if count > SHOWN_MAX:
            parts.append(f"... and {count - SHOWN_MAX} more")
        super().__init__("\n\n".join(parts))


WIDTH_MAX = 100
"""Longer lines are cut to the part around the caret."""

_WHOLE_MAX = 1_000
"""Characters of a longer line that are searched for secrets, which takes time."""

_ENDLESS = re.compile(r"[^\s,{}\[\]:]{80,}")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")

# A quoted line may hold a secret even if the problem lies elsewhere on the line, and the secret's
# key may be misspelt.
_SECRET_KEY = r"""
    ["']? [\w.-]{0,40} (?:tok|secr|passw|pwd|auth|cred|cookie|api[_-]?k|routing[_-]?k|hook[_-]?url)
    [\w.-]{0,40} ["']?
    \s{0,9} : \s{1,40}
"""
_SECRET_LINE = re.compile(rf"(?ix) ^(?P<key> [\s-]{{0,200}} {_SECRET_KEY}) (?P<value> .+)")
_SECRET_ENTRY = re.compile(
    rf"""(?ix) (?P<key> {_SECRET_KEY}) (?P<value> "[^"]*" | '[^']*' | [^,}}\]]+)"""
)
_NOT_SECRET = re.compile(r"""(?i)(_file|_env|_path)["']?\s*:\s+$""")


@dataclass(frozen=True, slots=True)
class Source:
    """A configuration file's name and text."""

    name: str
    text: str
    lines: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", tuple(_LINE_BREAK.split(self.text)))

    def problem(self, place: Place, message: str, remedy: str = "") -> Problem:
        """Return a problem at `place` that quotes its line."""
        return Problem(
            source=self.name,
            place=place,
            message=message,
            remedy=remedy,
            excerpt=self.excerpt(place),
        )

    def excerpt(self, place: Place) -> str:
        """Return the line at `place` with a caret below it, safe to print."""
        if not 1 <= place.line <= len(self.lines):
            return ""
        number = str(place.line)
        line, column = _window(self.lines[place.line - 1], place.column - 1)
        return f"  {number} | {line}\n  {' ' * len(number)} | {' ' * column}^"

    def place_of(self, index: int) -> Place:
        """Return the place of the character at `index`."""
        line, start = 1, 0
        for end_of_line in _LINE_BREAK.finditer(self.text, 0, index):
            line, start = line + 1, end_of_line.end()
        return Place(line, index - start + 1)


def _window(line: str, column: int) -> tuple[str, int]:
    """Return the part of a line around a column, safe to print, and the column within it."""
    column = min(column, len(line))
    if len(line) > _WHOLE_MAX:
        start = max(0, column - _WHOLE_MAX // 2)
        line, column = line[start : start + _WHOLE_MAX], column - start
    # Mask the text before the column separately: the caret moves by what the mask removes.
    column = len(_masked(line[:column]))
    line = _masked(line)
    start = max(0, column - WIDTH_MAX // 2) if len(line) > WIDTH_MAX else 0
    shown = line[start : start + WIDTH_MAX]
    # Escape sequences in a file must not reach the terminal.
    return "".join(c if c.isprintable() else " " for c in shown).rstrip(), column - start


def _masked(line: str) -> str:
    masked = _SECRET_ENTRY.sub(_mask, _SECRET_LINE.sub(_mask, line))
    # A value that fills the whole excerpt hides its key, so it may be a secret.
    return _ENDLESS.sub(MASK, masked) if len(line) > WIDTH_MAX else masked


def _mask(found: re.Match[str]) -> str:
    key, value = found["key"], found["value"]
    if _NOT_SECRET.search(key) or value.lstrip().startswith(("${", "|", ">")):
        return found[0]
    return key + MASK


MOVED: Mapping[str, str] = {
    "instance_manager": 'set "boot_deadline" in each pool',
    "unhealthy_threshold": 'write "unhealthy_after" under "health"',
    "scaling": 'write "autoscaling"',
    "cooldown_period": 'write "cooldown"',
    "scale_up_threshold": 'write "scale_up_at"',
    "scale_down_threshold": 'write "scale_down_at"',
    "strategies": 'write "autoscalers", with type: composite',
    "start_hour": 'write "start"',
    "end_hour": 'write "end"',
    "api_key_secret": 'write "api_key_file" or "api_key_env"',
    "credentials_secret": 'write "credentials_file"',
    "global": 'write "defaults" or "server"',
    "grpc_port": 'write "grpc_address"',
    "instance_types": 'write "instance_type"',
    "regions": 'write "region", or "regions" in an entry of "providers"',
    "weight": 'write it in an entry of "providers"',
    "priority": 'write it in an entry of "providers"',
}
"""Remedies for keys of older guides and for keys written in the wrong block."""

_LENGTH_MAX = 64


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, if any is close."""
    if len(name) > _LENGTH_MAX:
        return None
    by_folded = {each.lower().replace("-", "_"): each for each in known}
    folded = name.lower().replace("-", "_")
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question whether the closest known name is meant; `otherwise` if none is close."""
    close = suggest(name, known)
    return f'did you mean "{close}"?' if close else otherwise


def join_names(names: Iterable[str]) -> str:
    """Return names as an English list: `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
