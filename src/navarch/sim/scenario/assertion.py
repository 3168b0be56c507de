"""Assertions: conditions that the outcome of a scenario must meet."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import DURATION, TEXT
from navarch.config.schema import Fault, block, key
from navarch.core.health import Health
from navarch.core.node import NodeStatus
from navarch.sim.figures.figures import FIGURE_NAMES


class AssertionType(StrEnum):
    """The subject of an assertion."""

    NODE_STATUS = "node_status"
    HEALTH_STATUS = "health_status"
    NODE_COUNT = "node_count"
    FIGURE = "figure"
    EVENT = "event"


_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(r"\s*(<=|>=|==|<|>)\s*(-?[0-9]+(?:\.[0-9]+)?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A condition on a figure, such as `<= 90`."""

    operator: str
    bound: float

    def holds(self, value: float) -> bool:
        """Return whether `value` meets the condition."""
        return _OPERATORS[self.operator](value, self.bound)


def parse_comparison(text: str) -> Comparison | None:
    """Return the comparison in a text, or None if the text is not a comparison."""
    found = _COMPARISON.fullmatch(text)
    if found is None:
        return None
    return Comparison(operator=found[1], bound=float(found[2]))


def check_expectation(kind: str, target: str, expected: str) -> Iterator[tuple[str, str, str]]:
    """Yield the problems of an assertion: the key, the message and the remedy."""
    if kind not in list(AssertionType):
        known = ", ".join(AssertionType)
        yield "type", f"unknown assertion type: {kind}", f"known are {known}"
        return
    match AssertionType(kind):
        case AssertionType.NODE_STATUS:
            yield from _one_of("status", expected, list(NodeStatus))
        case AssertionType.HEALTH_STATUS:
            yield from _one_of("health", expected, list(Health))
        case AssertionType.NODE_COUNT:
            if not re.fullmatch("[0-9]{1,9}", expected, re.ASCII):
                yield "expected", f'expected must be a number of nodes, not "{expected}"', "write 3"
        case AssertionType.FIGURE:
            if target not in FIGURE_NAMES:
                yield "target", f"unknown figure: {target}", f"known are {', '.join(FIGURE_NAMES)}"
            if parse_comparison(expected) is None:
                yield "expected", f'"{expected}" is not a comparison', 'write expected: "<= 90"'
        case AssertionType.EVENT:
            if parse_comparison(expected) is None:
                yield "expected", f'"{expected}" is not a comparison', 'write expected: ">= 1"'
    if not target:
        yield "type", f"{kind} needs a target", "add target: with the name of a node"


def _one_of(what: str, word: str, known: list[str]) -> Iterator[tuple[str, str, str]]:
    if word not in known:
        yield "expected", f'unknown {what} "{word}"', f"known are {', '.join(known)}"


def _check_assertion(
    type: str,  # noqa: A002
    target: str,
    expected: str,
    after: timedelta | None,
    before: timedelta | None,
) -> Iterator[Fault]:
    for where, message, remedy in check_expectation(type, target, expected):
        yield Fault(message, remedy, at=(where,))
    for where, moment in (("after", after), ("before", before)):
        if moment is not None and type != AssertionType.EVENT:
            yield Fault(f"{type} has no {where}", "only events have a time", at=(where,))
    if after is not None and before is not None and after >= before:
        yield Fault("no event is after the end", "write an after that is earlier", at=("after",))


@block(rules=(_check_assertion,))
class Assertion:
    """A condition that must hold at the end of the scenario."""

    type: str = key(TEXT, "the type of assertion", default=str(AssertionType.NODE_STATUS))
    target: str = key(
        TEXT,
        "the node; for `node_count`: `all` or a pool, provider, region or zone; for `figure`: "
        "its name; for `event`: a kind of journal event, optionally followed by a colon and a text "
        "that its reason contains",
        default="",
    )
    expected: str = key(
        TEXT, "a status, the least number of active nodes, or a comparison", default=""
    )
    after: timedelta | None = key(
        DURATION,
        "for `event`: the time of the scenario from which on events count",
        default=None,
    )
    before: timedelta | None = key(
        DURATION,
        "for `event`: the time of the scenario up to which events count",
        default=None,
    )

    def covers(self, elapsed: timedelta) -> bool:
        """Return whether an event at this time of the scenario counts."""
        is_early = self.after is not None and elapsed < self.after
        return not is_early and (self.before is None or elapsed <= self.before)
