"""An invalid policy is refused when it is read, with the position of the mistake."""

from pathlib import Path

import pytest

from navarch.config.errors import ConfigError
from navarch.config.policy import default_policy_text, load_policy, parse_policy
from navarch.config.reference import POLICY_SECTIONS, render_reference
from navarch.health.policy.occurrence import FIELDS

RULE = "rules:\n  - name: a\n    condition: {}\n    result: unhealthy\n"
TRUE = '  - name: {}\n    condition: "true"\n    result: healthy\n'

MISTAKES = {
    "syntax": (RULE.format('event.event_type == "xid" &&'), 3, "Syntax error", "missing"),
    "variable": (RULE.format('evnt.event_type == "xid"'), 3, 'unknown variable "evnt"', "event"),
    "field": (RULE.format('event.event_typ == "xid"'), 3, "event has no field", "event_type"),
    "function": (RULE.format("matchs(event.check)"), 3, 'unknown function "matchs"', "matches"),
    "type": (RULE.format("phase == 3"), 3, "== cannot be used on string and int", "one type"),
    "not boolean": (RULE.format("1 + 1"), 3, "not true or false", "compare"),
    "anything": (RULE.format("event.metrics.xid_code"), 3, "not true or false", "compare"),
    "empty": (RULE.format('""'), 3, "condition is required", "match everything"),
    "duplicate": (
        f"rules:\n{TRUE.format('a')}{TRUE.format('a')}",
        5,
        "duplicate rule name",
        "unique",
    ),
    "unreachable": (f"rules:\n{TRUE.format('a')}{TRUE.format('b')}", 6, "never reached", "above"),
    "never": (RULE.format("1 > 2"), 3, "can never match", "delete"),
    "no rules": ("rules: []\n", 1, "policy must have at least one rule", "add rules"),
    "no name": ('rules:\n  - condition: "true"\n    result: healthy\n', 2, "name is required", ""),
    "result": ('rules:\n  - {name: a, condition: "true", result: bad}\n', 2, "invalid result", ""),
    "key": (RULE.format("true").replace("result", "reslt"), 4, "unknown key", "result"),
    "version": ("version: v9\n" + RULE.format("true"), 1, "unsupported policy version", "v1"),
    "window": (RULE.format("true") + "    count: 3\n", 5, "count needs within", "within"),
    "no count": (
        RULE.format("true") + "    within: 3m\n",
        5,
        "no effect while count is 1",
        "count",
    ),
    "distinct": (RULE.format("true") + "    distinct: pid\n", 5, "distinct has no effect", "count"),
    "phase": (RULE.format("true") + "    phases: [sleeping]\n", 5, "booting", "idle"),
    "sources": (RULE.format("true") + "    sources: 9\n", 5, "whole number", ""),
    "action": (RULE.format("true") + "    action: burn\n", 5, "reset_gpu", ""),
    "list": ("- a\n", 1, "must be a mapping", ""),
    "yaml": ("rules: [\n", 2, "not valid YAML", ""),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_a_mistake_is_shown_at_its_line_with_a_remedy(mistake: str) -> None:
    text, line, message, remedy = MISTAKES[mistake]

    with pytest.raises(ConfigError) as caught:
        parse_policy(text, source="mine.yaml")

    problem = next(p for p in caught.value.problems if message in p.message)
    assert problem.source == "mine.yaml"
    assert problem.place is not None
    assert problem.place.line == line
    assert remedy in problem.remedy


@pytest.mark.parametrize(("opening", "line", "column"), [("|", 6, 7), (">", 6, 7), (">-\n", 7, 7)])
def test_a_position_in_a_multi_line_condition_is_found(
    opening: str, line: int, column: int
) -> None:
    condition = f"{opening}\n      event.check == 'xid' &&\n      // why\n      evnt.check == 'a'"
    if opening != "|":
        condition = condition.replace("      // why\n", "      true &&\n")
    with pytest.raises(ConfigError) as caught:
        parse_policy(RULE.format(condition))

    (problem,) = caught.value.problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (line, column)


def test_all_mistakes_are_reported_at_once() -> None:
    text = "".join(
        f"  - name: r{i}\n    condition: nope{i} == 1\n    result: healthy\n" for i in range(5)
    )
    with pytest.raises(ConfigError) as caught:
        parse_policy(f"rules:\n{text}")
    assert len(caught.value.problems) == 5


def test_policies_of_the_go_system_are_read_unchanged() -> None:
    policy = parse_policy(
        """
version: v1
metadata: {name: default, description: As in the Go system.}
rules:
  - name: fatal-xid
    condition: |
      // comments are allowed
      event.event_type == "xid" &&
      event.metrics.xid_code in [48, 79, 95]
    result: unhealthy
  - name: ecc-dbe
    condition: |
      event.event_type == "ecc_dbe" ||
      (event.system == "DCGM_HEALTH_WATCH_MEM" && has(event.metrics.ecc_dbe_count) &&
       event.metrics.ecc_dbe_count > 0)
    result: unhealthy
  - name: thermal-critical
    condition: >
      event.event_type == "thermal" && has(event.metrics.temperature) &&
      event.metrics.temperature >= 95
    result: unhealthy
  - name: default
    condition: "true"
    result: healthy
"""
    )
    assert policy.rules[0].name == "fatal-xid"


def test_the_built_in_policy_can_be_copied_and_read_back() -> None:
    assert parse_policy(default_policy_text()).name == "default"
    assert load_policy("default").name == "default"


DOCS = Path(__file__).parents[3] / "docs" / "reference" / "policy.md"
EXAMPLES = Path(__file__).parents[3] / "examples" / "policy"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_every_example_policy_is_valid(name: str) -> None:
    assert load_policy(EXAMPLES / name).rules


def test_the_reference_page_has_every_key_and_field() -> None:
    text = DOCS.read_text("utf-8")
    assert render_reference(text) == text, "run python -m navarch.config.reference on the page"
    for section in POLICY_SECTIONS:
        assert f"<!-- keys {section} -->" in text
    for fields in FIELDS.values():
        for field in fields:
            assert f"`{field}`" in text, field
