"""Conditions in CEL: compiled once, and validated before use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
    """An error in a condition, and its position."""

    message: str
    remedy: str = ""
    line: int = 1
    column: int = 1


class Expressions:
    """Several conditions evaluated together, which takes a third of the time of each by itself."""

    def __init__(self, texts: Sequence[str]) -> None:
        # Each on its own lines: a condition may end with a comment.
        together = ",".join(f"(\n{text}\n)" for text in texts)
        self._each = [_environment().compile(text) for text in texts]
        self._together: cel.Expression | None = None
        # The compiler may reject the combined size, though it accepts each condition.
        with suppress(RuntimeError):
            self._together = _environment().compile(f"[{together}]")

    def hold(self, values: Mapping[str, Any]) -> Sequence[bool | str]:
        """Return for each condition whether it holds, or the error as text."""
        activation = _environment().Activation(values)
        found = None if self._together is None else _evaluated(self._together, activation)
        if isinstance(found, list):
            return [item.value() for item in found]
        # At least one condition fails to evaluate; evaluate the others by themselves.
        found = [_evaluated(each, activation) for each in self._each]
        return [each if isinstance(each, bool) else str(each) for each in found]


def _evaluated(condition: cel.Expression, activation: cel.Activation) -> object:
    """Return the value of a condition, or the error as text.

    CEL returns most errors as values, and raises if a condition exceeds its step limit.
    """
    try:
        return condition.eval(activation).value()
    except Exception as error:  # noqa: BLE001 - whatever is wrong, the other conditions count
        return str(error) or repr(error)


def find_flaw(text: str) -> Flaw | None:
    """Return the first error in a condition; None if it is valid."""
    if len(text) > CONDITION_MAX:
        return Flaw(message="the condition is too long", remedy="split it into several rules")
    try:
        compiled = _environment().compile(text)
    except RuntimeError as error:
        return _flaw(text, str(error))
    unknown = _find_unknown_field(text)
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


def variables_used(texts: Iterable[str]) -> frozenset[str]:
    """Return the variables that occur in conditions; the others need not be computed.

    A name inside quotes counts as well, which is harmless.
    """
    return frozenset(word for text in texts for word in _WORD.findall(text)).intersection(VARIABLES)


@cache
def constant(text: str) -> bool | None:
    """Return the value of a condition that is always true or always false; else None."""
    try:
        value = cel.NewEnv(variables={}).compile(text).eval(data={}).value()
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
    "DYN": "of unknown type",
}


@cache
def _environment() -> cel.Env:
    free = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    return cel.NewEnv(variables={**dict.fromkeys(FIELDS, free), "phase": cel.Type.STRING})


_WHERE = re.compile(r"<input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_FUNCTIONS = (
    *("has", "size", "matches", "startsWith", "endsWith", "contains", "exists", "all"),
    *("int", "double", "string", "timestamp", "duration"),
)


def _flaw(text: str, error: str) -> Flaw:
    found = _WHERE.search(error)
    if found is None:
        return Flaw(message=error.partition("\n")[0])
    line, column, message = int(found[1]), int(found[2]), found[3].strip()
    undeclared = _UNDECLARED.search(message)
    if undeclared is not None:
        name = undeclared[1]
        head = name.partition(".")[0]
        is_called = text.split("\n")[line - 1][column - 1 : column] == "("
        known = _FUNCTIONS if is_called else (*FIELDS, "phase")
        close = get_close_matches(head, known, n=1, cutoff=0.6)
        # The compiler points behind some names; report their beginning.
        behind = is_called or "." in name
        return Flaw(
            message=f'unknown {"function" if is_called else "variable"} "{head}"',
            remedy=f'did you mean "{close[0]}"?' if close else f"there are {', '.join(known)}",
            line=line,
            column=max(1, column - len(head)) if behind else column,
        )
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


_TOKEN = re.compile(
    r"""(?P<text>'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
    r"|(?P<comment>//[^\n]*)"
    rf"|(?<![\w.])(?P<variable>{'|'.join(FIELDS)})\s*\.\s*(?P<field>\w+)",
    re.DOTALL,
)


def _find_unknown_field(text: str) -> Flaw | None:
    """Return the first field that no event, check, GPU or node has.

    CEL reports them at run time only.
    """
    for found in _TOKEN.finditer(text):
        variable, field = found["variable"], found["field"]
        if variable is None or field in FIELDS[variable]:
            continue
        close = get_close_matches(field, FIELDS[variable], n=1, cutoff=0.6)
        at = found.start("field")
        line = text.count("\n", 0, at) + 1
        return Flaw(
            message=f'{variable} has no field "{field}"',
            remedy=f'did you mean "{variable}.{close[0]}"?'
            if close
            else f"it has {', '.join(FIELDS[variable])}",
            line=line,
            column=at - (text.rfind("\n", 0, at) + 1) + 1,
        )
    return None
