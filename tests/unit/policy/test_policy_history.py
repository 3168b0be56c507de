"""The journal keeps everything that a rule can use of a finding."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as some

from navarch.core.health import CheckResult, Condition, Health
from navarch.core.node import Node
from navarch.health.policy.counterfactual import compare_policies
from navarch.health.policy.engine import Engine
from navarch.health.policy.history import LABELS_MAX, finding_event, occurrence_of
from navarch.health.policy.occurrence import Occurrence, variables
from navarch.health.policy.policy import MachinePhase, Policy, Rule
from navarch.testing.worlds import NOW, a_node

NONE = Policy(name="none", rules=())

words = some.text("abcXYZ019-_./ é", max_size=12)
names = some.text("abcXYZ019-_./", min_size=1, max_size=12)
healths = some.sampled_from([Health.DEGRADED, Health.UNHEALTHY])
gpus = some.sampled_from(["GPU-0", "GPU-1"])


@some.composite
def conditions(draw: some.DrawFn) -> Condition:
    kind, gpu = (
        draw(some.sampled_from(["xid/48", "sxid/12028", "wear", "rows", "heat"])),
        draw(gpus),
    )
    code = kind.partition("/")[2]
    facts = {"gpu": gpu, **({"code": code} if code else {})}
    return Condition(
        check=f"{kind}/{gpu}",
        health=draw(healths),
        reason=draw(words),
        since=NOW,
        facts=draw(some.sampled_from([facts, {}])),
    )


@some.composite
def nodes(draw: some.DrawFn) -> Node:
    return a_node(
        "training-0",
        health=draw(some.sampled_from(list(Health))),
        conditions=tuple(draw(some.lists(conditions(), max_size=5))),
        labels=draw(some.dictionaries(names, words, max_size=5)),
        cordoned=draw(some.sampled_from([None, "somebody said so"])),
        gpus=draw(some.integers(0, 16)),
        boot_id=draw(names),
    )


@some.composite
def occurrences(draw: some.DrawFn) -> Occurrence:
    facts = draw(some.dictionaries(names, words, max_size=4))
    return Occurrence(
        result=CheckResult(
            check=draw(some.sampled_from(["xid/48/GPU-0", "rows", "wear/GPU-1"])),
            health=draw(healths),
            reason=draw(words) or "something",
            fatal=draw(some.booleans()),
            lasting=draw(some.booleans()),
            action=draw(some.sampled_from(["", "reset_gpu"])),
            facts={name: value for name, value in facts.items() if value} | {"gpu": draw(gpus)},
        ),
        node=draw(nodes()),
        at=NOW + timedelta(seconds=draw(some.integers(0, 1000))),
        phase=draw(some.sampled_from(list(MachinePhase))),
    )


@settings(max_examples=200, deadline=None)
@given(occurrences())
def test_every_variable_is_the_same_when_a_finding_is_read_back(seen: Occurrence) -> None:
    verdict = Engine(NONE).judge(seen)

    again = occurrence_of(finding_event(seen, verdict, NONE, now=NOW))

    assert again is not None
    found, expected = variables(again), variables(seen)
    # An empty label equals a missing one.
    expected["node"]["labels"] = {k: v for k, v in expected["node"]["labels"].items() if v}
    assert found == expected


def a_finding(**labels: str) -> Occurrence:
    result = CheckResult(
        check="xid/74/GPU-0",
        health=Health.DEGRADED,
        reason="XID 74",
        lasting=True,
        facts={"code": "74", "gpu": "GPU-0"},
    )
    node = a_node("training-0", labels=labels)
    return Occurrence(result=result, node=node, at=NOW, phase=MachinePhase.BUSY)


def test_a_new_policy_sees_the_labels_of_that_time() -> None:
    old_racks = Rule(
        name="old-racks",
        condition='has(node.labels.rack) && node.labels.rack == "r7"',
        result=Health.UNHEALTHY,
    )
    engine = Engine(NONE)
    events = [
        finding_event(seen, engine.judge(seen), NONE, now=NOW)
        for seen in (a_finding(rack="r7"), a_finding(rack="r8"))
    ]

    found = compare_policies(NONE, Policy(name="new", rules=(old_racks,)), events)

    assert found.new.verdicts == {"degraded": 1, "unhealthy": 1}
    assert [difference.new.rule for difference in found.differences] == ["old-racks"]


def test_the_labels_in_the_journal_are_limited() -> None:
    seen = a_finding(**{f"label-{i}": "x" * 50 for i in range(1000)}, long="y" * 10_000)

    event = finding_event(seen, Engine(NONE).judge(seen), NONE, now=NOW)

    assert sum(name.startswith("label.") for name in event.facts) == LABELS_MAX
    assert sum(map(len, event.facts.values())) < 5_000


def test_the_older_format_of_conditions_is_read() -> None:
    seen = a_finding()
    event = finding_event(seen, Engine(NONE).judge(seen), NONE, now=NOW)
    old = {**event.facts, "conditions": "unhealthy xid/48/GPU-0;degraded rows"}
    again = occurrence_of(
        type(event)(at=NOW, about=event.about, kind=event.kind, reason="", facts=old)
    )

    assert again is not None
    assert variables(again)["gpu"] == {"health": "unhealthy", "checks": ["xid"], "codes": [48]}
    assert variables(again)["node"]["checks"] == ["xid", "rows"]
