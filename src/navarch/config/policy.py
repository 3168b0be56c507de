"""Policy files: rules for health events."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

from navarch.config.block import Nested, nested
from navarch.config.context import Scope
from navarch.config.document import Leaf, Tree
from navarch.config.errors import Place, Source
from navarch.config.kinds import BOOLEAN, DURATION, DURATION_OR_ZERO, TEXT, Choice, Integer, ListOf
from navarch.config.loading import read_context, read_document, read_text
from navarch.config.schema import Fault, block, copied, key, repeated
from navarch.core.health import Health
from navarch.health.policy.expression import Flaw, constant, find_flaw
from navarch.health.policy.policy import (
    BOOT_GRACE,
    COUNT_MAX,
    WINDOW_MAX,
    MachinePhase,
    Policy,
    Rule,
)
from navarch.health.policy.policy import Scope as CountedPer
from navarch.health.xid.catalogue import Action

VERSIONS = ("v1", "1")
SOURCES_MAX = 3
"""The kernel log, the kernel's tracepoint and NVML."""

DEFAULT = "default"
"""The name of the built-in policy, accepted in place of a path."""


class RuleResult(StrEnum):
    """The results of a rule."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An expression in CEL, compiled when the file is read."""

    noun: str = "a condition in CEL"

    def read(self, node: Tree, scope: Scope) -> str:
        """Return the text of a valid condition."""
        if not isinstance(node, Leaf):
            raise scope.wrong_type(node, self.noun, "'event.event_type == \"xid\"'")
        if node.tag == "null" or not node.text.strip():
            raise scope.refuse(
                scope.home, "condition is required", 'write condition: "true" to match everything'
            )
        flaw = find_flaw(node.text)
        if flaw is not None:
            place = _place_within(scope.context.source, node, flaw)
            raise scope.refuse(place, flaw.message, flaw.remedy)
        return node.text

    def plain(self, value: str) -> object:
        """Return it as it is."""
        return value


def _count_needs_within(
    count: int, within: timedelta | None, distinct: str | None
) -> Iterator[Fault]:
    if count > 1 and within is None:
        yield Fault(
            "count needs within",
            "add within: with the length of the window, such as 10m",
            at=("count",),
        )
    if within is not None and count == 1:
        yield Fault(
            "within has no effect while count is 1",
            "add count: 2 or more, or leave within out",
            at=("within",),
        )
    if within is not None and within > WINDOW_MAX:
        yield Fault("within cannot exceed 30 days", "write within: 30d or less", at=("within",))
    if distinct and within is None:
        yield Fault(
            "distinct has no effect without count and within",
            "add count and within",
            at=("distinct",),
        )


def _fatal_needs_unhealthy(fatal: bool | None, result: RuleResult) -> Iterator[Fault]:
    if fatal and result is not RuleResult.UNHEALTHY:
        yield Fault(
            f"fatal needs the result unhealthy, not {result}",
            "write result: unhealthy, or leave fatal out",
            at=("fatal",),
        )


@block(rules=(_count_needs_within, _fatal_needs_unhealthy))
class RuleConfig:
    """One rule: if all of its criteria match, its result is the verdict."""

    name: str = key(TEXT, "the unique name of the rule")
    description: str = key(TEXT, "a description for readers", default="")
    condition: str = key(Condition(), "a boolean expression in CEL")
    result: RuleResult = key(
        Choice(options=RuleResult, unknown="invalid result"), "the verdict for the event"
    )
    action: Action | None = key(
        Choice(options=Action),
        "what to do about it; the action of the check if left out",
        default=None,
    )
    fatal: bool | None = key(
        BOOLEAN,
        "act at once; if left out, as the check decides, and always for events",
        default=None,
    )
    count: int = key(
        Integer(least=1, most=COUNT_MAX), "how many events must match the condition", default=1
    )
    within: timedelta | None = key(DURATION, "the window in which they are counted", default=None)
    per: CountedPer = key(
        Choice(options=CountedPer), "what events are counted by", default=CountedPer.GPU
    )
    distinct: str | None = key(
        TEXT, "count distinct values of this fact, such as `pid`, instead of events", default=None
    )
    sources: int = key(
        Integer(least=1, most=SOURCES_MAX), "how many sources must report the event", default=1
    )
    phases: tuple[MachinePhase, ...] = key(
        ListOf(each=Choice(options=MachinePhase)),
        "the phases of the machine in which the rule applies; all if left out",
        default=(),
    )


@block()
class MetadataConfig:
    """The name and description of a policy."""

    name: str = key(TEXT, "the name in reasons and listings", default="unnamed")
    description: str = key(TEXT, "a description for readers", default="")


def _version_is_supported(version: str) -> Iterator[Fault]:
    if version not in VERSIONS:
        yield Fault(f'unsupported policy version "{version}"', "write version: v1", at=("version",))


def _at_least_one_rule(rules: tuple[RuleConfig, ...]) -> Iterator[Fault]:
    if not rules:
        yield Fault(
            "policy must have at least one rule",
            "add rules: with a name, a condition and a result",
            at=("rules",),
        )


def _rule_names_are_unique(rules: tuple[RuleConfig, ...]) -> Iterator[Fault]:
    for index in repeated([rule.name for rule in rules]):
        yield Fault(
            f'rule "{rules[index].name}": duplicate rule name',
            "give it a unique name: reasons quote it",
            at=("rules", index, "name"),
        )


def _rules_are_reachable(rules: tuple[RuleConfig, ...]) -> Iterator[Fault]:
    catching: RuleConfig | None = None
    earlier: dict[str, str] = {}
    for index, rule in enumerate(rules):
        at = ("rules", index, "condition")
        text = " ".join(rule.condition.split())
        always = constant(rule.condition)
        hiding = catching.name if catching else earlier.get(text)
        if hiding is not None:
            yield Fault(
                f'rule "{rule.name}" is never reached: "{hiding}" above it matches first',
                f'move it above "{hiding}", or delete it',
                at=at,
            )
        elif always is False:
            yield Fault(f'rule "{rule.name}" can never match', "delete or correct it", at=at)
        if _rule(rule).unconditional:
            earlier.setdefault(text, rule.name)
            if always and catching is None:
                catching = rule


@block(
    rules=(_version_is_supported, _at_least_one_rule, _rule_names_are_unique, _rules_are_reachable)
)
class PolicyConfig:
    """A policy file."""

    version: str = key(TEXT, "the version of the format, v1", default="v1")
    metadata: MetadataConfig = nested(MetadataConfig, "the name and description of the policy")
    boot_grace: timedelta = key(
        DURATION_OR_ZERO,
        "how long after its start a machine is in the phase `booting`",
        default=BOOT_GRACE,
    )
    rules: tuple[RuleConfig, ...] = key(
        ListOf(each=Nested(cls=RuleConfig)),
        "the rules, tried in this order for every event",
        default=(),
    )


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Return the policy in a file, or raise ConfigError with every problem."""
    source = os.fspath(path)
    if source == DEFAULT:
        return default_policy()
    return parse_policy(read_text(source, noun="policy"), source=source)


def parse_policy(text: str, *, source: str = "policy.yaml") -> Policy:
    """Return the policy in a text, or raise ConfigError with every problem."""
    found = read_document(PolicyConfig, read_context(text, source=source), noun="policy")
    return Policy(
        name=found.metadata.name,
        description=found.metadata.description,
        version=found.version,
        boot_grace=found.boot_grace,
        rules=tuple(_rule(rule) for rule in found.rules),
    )


@cache
def default_policy() -> Policy:
    """Return the built-in policy."""
    return parse_policy(default_policy_text(), source="the built-in policy")


def default_policy_text() -> str:
    """Return the text of the built-in policy."""
    file = resources.files("navarch.health.policy").joinpath("data", "default.yaml")
    return file.read_text(encoding="utf-8")


def _rule(rule: RuleConfig) -> Rule:
    return copied(
        Rule,
        rule,
        result=Health(rule.result.value),
        action=None if rule.action is None else str(rule.action),
        distinct=rule.distinct or "",
    )


def _place_within(source: Source, leaf: Leaf, flaw: Flaw) -> Place:
    """Return the place in the file of a flaw within a condition.

    A condition may be a literal block (`|`), a folded block (`>`), quoted or plain.
    """
    line, column = leaf.place.line, leaf.place.column
    mark = source.lines[line - 1][column - 1 : column]
    offset = sum(len(part) + 1 for part in leaf.text.split("\n")[: flaw.line - 1]) + flaw.column - 1
    if mark not in ("|", ">"):
        is_one_line = "\n" not in leaf.text and flaw.line == 1
        return Place(line, column + (not leaf.plain) + offset) if is_one_line else leaf.place
    block_lines = source.lines[line:]
    indent = next((len(x) - len(x.lstrip()) for x in block_lines if x.strip()), 0)
    for number, written in enumerate(block_lines, start=line + 1):
        length = len(written[indent:])
        if offset <= length:
            return Place(number, indent + offset + 1)
        offset -= length + 1
    return leaf.place


def rule_facts(rule: Rule) -> Mapping[str, Any]:
    """Return the criteria of a rule besides its condition, by the keys of the file."""
    asked: dict[str, Any] = {
        "action": rule.action,
        "fatal": rule.fatal,
        "count": rule.count if rule.count > 1 else None,
        "within": rule.within,
        "per": str(rule.per) if rule.within and rule.per is not CountedPer.GPU else None,
        "distinct": rule.distinct or None,
        "sources": rule.sources if rule.sources > 1 else None,
        "phases": ", ".join(rule.phases) or None,
    }
    return {name: value for name, value in asked.items() if value is not None}
