"""Conditions: CEL, compiled once and checked before it is ever used."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from cel_expr_python import cel

from navarch.health.policy.occurrence import FIELDS, VARIABLES

CONDITION_MAX = 10_000
"""The longest condition, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """What is wrong with a condition, and where in it."""

    message: str
    remedy: str = ""
    line: int = 1
    column: int = 1


KNOWN_MAX = 1_000
"""So many answers are remembered of one policy."""


class Expressions:
    """Several conditions, asked at once: that takes a third of the time of asking each.

    A condition holds by what it is told and nothing else. Where all of them speak of nothing but
    what a check has found and what the machine is at, there is little that they can be told, and
    the same is told again with the next machine of a thousand: that answer is remembered, since
    to be asked takes longer than all else that is made of a report.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._recurs = variables_used(texts) <= {"check", "phase"}
        self._known: dict[str, Sequence[bool | str]] = {}
        # Each on lines of its own: a condition may end with a comment.
        together = ",".join(f"(\n{text}\n)" for text in texts)
        self._each = [_environment().compile(text) for text in texts]
        self._together = _compiled(f"[{together}]")

    def hold(self, values: Mapping[str, Any]) -> Iterable[bool | str]:
        """Return for each condition whether it holds, or, as text, why that cannot be said."""
        if not self._recurs:
            return self._ask(values)
        told = repr(values)
        answer = self._known.get(told)
        if answer is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            answer = self._known[told] = tuple(self._ask(values))
        return answer

    def _ask(self, values: Mapping[str, Any]) -> Iterator[bool | str]:
        activation = _environment().Activation(values)
        if self._together is not None:
            found = _evaluated(self._together, activation)
            if isinstance(found, list):
                return (item.value() for item in found)
        # One of them cannot be evaluated; the others can.
        return (_truth(_evaluated(each, activation)) for each in self._each)


def _evaluated(condition: cel.Expression, activation: cel.Activation) -> object:
    """Return the value of a condition, or, as text, why it has none.

    CEL returns most errors as values. It raises when a condition takes more steps than it allows.
    """
    try:
        return condition.eval(activation).value()
    except Exception as error:  # noqa: BLE001 - whatever is wrong, the other conditions count
        return str(error) or repr(error)


def _truth(value: object) -> bool | str:
    return value if isinstance(value, bool) else str(value)


def _compiled(text: str) -> cel.Expression | None:
    try:
        return _environment().compile(text)
    except RuntimeError:
        return None  # Too much at once for the compiler, which each by itself was not.


def find_flaw(text: str) -> Flaw | None:
    """Return the first thing that is wrong with a condition; None if it can be used."""
    if len(text) > CONDITION_MAX:
        return Flaw(message="the condition is too long", remedy="make several rules of it")
    try:
        compiled = _environment().compile(text)
    except RuntimeError as error:
        return _flaw(text, str(error))
    unknown = next(_unknown_fields(text), None)
    if unknown is not None:
        return unknown
    kind = compiled.return_type()
    if kind != cel.Type.BOOL:
        return Flaw(
            message=f"the condition is {_TYPES.get(kind.name(), kind.name().lower())}, "
            "not true or false",
            remedy='compare it with something, as in event.event_type == "xid"',
        )
    return None


_WORD = re.compile(r"\w+")
_WHEN = re.compile(r"timestamp|\bphase\b|\bevent\b(?!\s*\.)")


def depends_on_moment(text: str) -> bool:
    """Return whether a condition may hold at one moment and not at another, all else being equal.

    One that speaks of an event as a whole is taken to speak of its date as well.
    """
    return _WHEN.search(text) is not None


def variables_used(texts: Iterable[str]) -> frozenset[str]:
    """Return the variables that conditions may speak of: the others need not be worked out.

    One that only stands in quotes counts as well, which does no harm.
    """
    return frozenset(word for text in texts for word in _WORD.findall(text)).intersection(VARIABLES)


@cache
def constant(text: str) -> bool | None:
    """Return what a condition always is, whatever happens; None if that depends."""
    try:
        value = _nothing_known().compile(text).eval(data={}).value()
    except RuntimeError:
        return None
    return value if isinstance(value, bool) else None


_TYPES = {
    "INT": "a whole number",
    "UINT": "a whole number",
    "DOUBLE": "a number",
    "STRING": "text",
    "MAP": "a map",
    "LIST": "a list",
    "DYN": "something that may be anything",
}


@cache
def _environment() -> cel.Env:
    free = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return cel.NewEnv(variables={**dict.fromkeys(FIELDS, free), "phase": cel.Type.STRING})


@cache
def _nothing_known() -> cel.Env:
    return cel.NewEnv(variables={})


_WHERE = re.compile(r"<input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")


def _flaw(text: str, said: str) -> Flaw:
    found = _WHERE.search(said)
    if found is None:
        return Flaw(message=said.partition("\n")[0])
    line, column, message = int(found[1]), int(found[2]), found[3].strip()
    undeclared = _UNDECLARED.search(message)
    if undeclared is not None:
        is_called = text.split("\n")[line - 1][column - 1 : column] == "("
        return _undeclared(undeclared[1], line, column, is_called=is_called)
    overload = _OVERLOAD.search(message)
    if overload is not None:
        name, types = overload[1].strip("_@"), overload[2]
        return Flaw(
            message=f"{name} cannot be used on {types.replace(', ', ' and ')}",
            remedy="both sides must be of one type; int(), double() and string() convert",
            line=line,
            column=column,
        )
    return Flaw(
        message=message.partition(", expecting")[0].partition(" expecting")[0],
        remedy="look for a missing quote, bracket or operand",
        line=line,
        column=column,
    )


_FUNCTIONS = (
    *("has", "size", "matches", "startsWith", "endsWith", "contains", "exists", "all"),
    *("int", "double", "string", "timestamp", "duration"),
)


def _undeclared(name: str, line: int, column: int, *, is_called: bool) -> Flaw:
    head = name.partition(".")[0]
    known = _FUNCTIONS if is_called else (*FIELDS, "phase")
    close = get_close_matches(head, known, n=1, cutoff=0.6)
    # The compiler points behind some names; people look at their beginning.
    behind = is_called or "." in name
    return Flaw(
        message=f'unknown {"function" if is_called else "variable"} "{head}"',
        remedy=f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known)}",
        line=line,
        column=max(1, column - len(head)) if behind else column,
    )


_TOKEN = re.compile(
    r"""(?P<text>'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
    r"|(?P<comment>//[^\n]*)"
    rf"|(?<![\w.])(?P<variable>{'|'.join(FIELDS)})\s*\.\s*(?P<field>\w+)",
    re.DOTALL,
)


def _unknown_fields(text: str) -> Iterator[Flaw]:
    """Yield every field that no event, GPU or node has: CEL itself would find out too late."""
    for found in _TOKEN.finditer(text):
        variable, field = found["variable"], found["field"]
        if variable is None or field in FIELDS[variable]:
            continue
        close = get_close_matches(field, FIELDS[variable], n=1, cutoff=0.6)
        at = found.start("field")
        line = text.count("\n", 0, at) + 1
        yield Flaw(
            message=f'{variable} has no field "{field}"',
            remedy=f'did you mean "{variable}.{close[0]}"?'
            if close
            else f"it has {', '.join(FIELDS[variable])}",
            line=line,
            column=at - (text.rfind("\n", 0, at) + 1) + 1,
        )
