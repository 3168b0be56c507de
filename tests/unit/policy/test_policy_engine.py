"""Verdicts of rules on events."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from navarch.config.policy import default_policy, parse_policy
from navarch.core.health import TESTING, CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.health.checks.xid import assess_xid
from navarch.health.policy.engine import Engine, Verdict, apply_verdict
from navarch.health.policy.expression import Expressions, variables_used
from navarch.health.policy.history import finding_event, occurrence_of
from navarch.health.policy.occurrence import Occurrence, is_occurrence, value_of, variables
from navarch.health.policy.policy import MachinePhase, machine_phase
from navarch.health.xid.catalogue import sxids, xids
from navarch.testing.worlds import NOW, a_node

NODE = a_node("training-0", boot_id="boot-1", gpus=8)


def xid(
    code: int, *, gpu: int = 0, pid: int | None = None, sources: str = "kmsg", times: int = 1
) -> CheckResult:
    assessment = assess_xid(code)
    facts = {"code": str(code), "gpu": f"GPU-{gpu}", "gpu_index": str(gpu), "sources": sources}
    facts["class"] = str(assessment.entry.origin)
    if pid is not None:
        facts["pid"] = str(pid)
    if times > 1:
        facts["times"] = str(times)
    return CheckResult(
        check=f"xid/{code}/GPU-{gpu}",
        health=assessment.health,
        reason=f"XID {code}",
        fatal=assessment.fatal,
        lasting=True,
        action=str(assessment.action),
        facts=facts,
    )


def occurrence(
    result: CheckResult,
    *,
    at: float = 0.0,
    phase: MachinePhase = MachinePhase.BUSY,
    node: Node = NODE,
) -> Occurrence:
    return Occurrence(result=result, node=node, at=NOW + timedelta(seconds=at), phase=phase)


def engine(*rules: Mapping[str, object], **keys: object) -> Engine:
    """Return the engine for a policy written as in a file."""
    named = [{"name": f"rule-{i}", **rule} for i, rule in enumerate(rules)]
    return Engine(parse_policy(json.dumps({"version": "v1", "rules": named, **keys})))


def judge(engine: Engine, *seen: Occurrence) -> list[Verdict]:
    verdicts = []
    for each in seen:
        verdicts.append(engine.judge(each))
        engine.note(verdicts[-1])
    return verdicts


def healths(verdicts: Sequence[Verdict]) -> list[Health]:
    return [verdict.health for verdict in verdicts]


CODES = sorted({**xids(), **sxids()})


def test_the_default_policy_agrees_with_the_whole_catalogue() -> None:
    default = Engine(default_policy())
    for code in CODES:
        result = xid(code)
        verdict = default.judge(occurrence(result))
        assert (verdict.health, verdict.fatal, verdict.action) == (
            result.health,
            result.fatal,
            result.action,
        ), code


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    ("health", "fatal"),
    [
        (Health.HEALTHY, False),
        (Health.DEGRADED, False),
        (Health.UNHEALTHY, False),
        (Health.UNHEALTHY, True),
    ],
)
def test_the_default_policy_keeps_the_result_of_every_check(
    health: Health, fatal: bool, lasting: bool
) -> None:
    result = CheckResult(check="pcie", health=health, fatal=fatal, lasting=lasting, action="none")

    verdict = Engine(default_policy()).judge(occurrence(result))

    assert (verdict.health, verdict.fatal) == (health, fatal)
    assert apply_verdict(result, verdict, default_policy()).reason == ""


def test_the_first_rule_that_matches_decides() -> None:
    rules = engine(
        {"condition": "event.metrics.xid_code == 31", "result": "degraded", "action": "none"},
        {"condition": 'event.event_type == "xid"', "result": "unhealthy"},
    )

    first, second = judge(rules, occurrence(xid(31)), occurrence(xid(13)))

    assert (first.rule, first.health, first.action) == ("rule-0", Health.DEGRADED, "none")
    assert (second.rule, second.health, second.fatal) == ("rule-1", Health.UNHEALTHY, True)


def test_without_a_matching_rule_the_checks_result_stands() -> None:
    rules = engine({"condition": 'event.event_type == "thermal"', "result": "healthy"})

    verdict = rules.judge(occurrence(xid(79)))

    assert (verdict.health, verdict.fatal, verdict.rule) == (Health.UNHEALTHY, True, "")


def test_a_failing_rule_keeps_the_checks_result_and_is_named() -> None:
    rules = engine(
        {"condition": "event.metrics.temperature >= 95", "result": "unhealthy"},
        {"condition": "true", "result": "healthy"},
    )

    verdict = rules.judge(occurrence(xid(79)))

    assert (verdict.health, verdict.fatal) == (Health.UNHEALTHY, True)
    assert verdict.broken
    assert "rule-0" in verdict.broken[0]
    reason = apply_verdict(xid(79), verdict, rules.policy).reason
    assert "could not be applied" in reason
    assert "temperature" in reason


def test_after_a_failing_rule_a_later_one_may_be_stricter() -> None:
    rules = engine(
        {"condition": "event.metrics.temperature >= 95", "result": "healthy"},
        {"condition": 'event.event_type == "xid"', "result": "unhealthy"},
    )

    assert rules.judge(occurrence(xid(31))).health is Health.UNHEALTHY


GREEDY = "event.sources.all(a, event.sources.all(b, event.sources.all(c, a + b + c != 'x')))"
"""A condition that exceeds CEL's step limit for 25 sources, but not for a few."""
MANY = ",".join(f"source-{i}" for i in range(25))


def test_a_rule_that_exceeds_the_step_limit_fails_and_is_named() -> None:
    rules = engine({"condition": GREEDY, "result": "healthy"})

    verdict = rules.judge(occurrence(xid(79, sources=MANY)))

    assert (verdict.health, verdict.fatal) == (Health.UNHEALTHY, True), "the check's own result"
    assert verdict.broken == ("rule-0: INTERNAL: Iteration budget exceeded [INTERNAL]",)
    assert rules.judge(occurrence(xid(79))).rule == "rule-0"


def test_a_rule_that_exceeds_the_step_limit_does_not_stop_the_others() -> None:
    rules = engine(
        {"condition": GREEDY, "result": "healthy"},
        {"condition": "event.metrics.xid_code == 31", "result": "unhealthy"},
    )

    verdict = rules.judge(occurrence(xid(31, sources=MANY)))

    assert (verdict.rule, verdict.health, verdict.fatal) == ("rule-1", Health.UNHEALTHY, True)


def test_rules_that_exceed_the_step_limit_only_together_are_evaluated_one_by_one() -> None:
    some = ",".join(f"source-{i}" for i in range(18))
    greedy = [
        {"condition": f"{GREEDY} && event.check == 'no-{i}'", "result": "healthy"} for i in range(4)
    ]
    rules = engine(*greedy, {"condition": "true", "result": "degraded"})

    verdict = rules.judge(occurrence(xid(31, sources=some)))

    assert (verdict.rule, verdict.broken) == ("rule-4", ())


def test_a_finding_that_cel_cannot_represent_fails_every_rule() -> None:
    rules = engine({"condition": 'event.event_type == "xid"', "result": "healthy"})
    odd = xid(79)
    odd = CheckResult(
        check=odd.check, health=odd.health, fatal=True, facts={**odd.facts, "code": "1.0e999"}
    )

    verdict = rules.judge(occurrence(odd))

    assert (verdict.health, verdict.fatal) == (Health.UNHEALTHY, True)
    assert verdict.broken == ("rule-0: OverflowError: cannot convert float infinity to integer",)


def test_a_rule_behind_the_one_that_matches_is_not_evaluated() -> None:
    rules = engine(
        {"condition": 'event.event_type == "xid" // a word about it', "result": "degraded"},
        {"condition": "event.metrics.temperature >= 95", "result": "unhealthy"},
    )

    verdict = rules.judge(occurrence(xid(79)))

    assert (verdict.health, verdict.broken) == (Health.DEGRADED, ())


@pytest.mark.parametrize("code", [13, 31, 79, 119])
def test_conditions_evaluated_together_give_the_same_results(code: int) -> None:
    deep = "(" * 25 + "true" + ")" * 25
    texts = [
        'event.event_type == "xid" // a word, and a bracket )',
        f"event.metrics.xid_code in [{code}, 5]",
        'event.metrics.xid_code > 50 &&\n  phase == "busy"',
        deep,
        "event.metrics.temperature >= 95",
    ]
    values = variables(occurrence(xid(code)))
    alone = [next(iter(Expressions([text]).hold(values))) for text in texts]
    for some in (texts[:3], texts[:4], texts):
        assert list(Expressions(some).hold(values)) == alone[: len(some)]
    assert alone[:4] == [True, True, code > 50, True]
    assert "temperature" in str(alone[4])


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("true", set()),
        ("check.fatal", {"check"}),
        ('gpu.health=="healthy"', {"gpu"}),
        ("size(node.labels) == 0", {"node"}),
        ("8 in [node\n .gpus]", {"node"}),
        ('phase == "busy" && event.event_type == "xid"', {"phase", "event"}),
        ('[event, check].exists(each, "event_type" in each)', {"event", "check"}),
    ],
)
def test_only_the_variables_of_a_condition_are_computed(text: str, about: set[str]) -> None:
    seen = occurrence(xid(79))
    assert variables_used([text]) == about
    needed = variables(seen, variables_used([text]))
    everything = variables(seen)
    assert list(Expressions([text]).hold(needed)) == list(Expressions([text]).hold(everything))
    assert list(Expressions([text]).hold(needed)) == [True]


def test_events_are_counted_over_a_sliding_window() -> None:
    rules = engine(
        {"condition": "true", "result": "degraded", "count": 3, "within": "10m"},
        {"condition": "true", "result": "healthy"},
    )

    seen = [occurrence(xid(31, pid=i), at=at) for i, at in enumerate((0, 60, 120, 700, 1500))]

    expected = [Health.HEALTHY, Health.HEALTHY, Health.DEGRADED, Health.HEALTHY, Health.HEALTHY]
    assert healths(judge(rules, *seen)) == expected


def test_each_gpu_has_its_own_count_unless_the_node_is_counted() -> None:
    counting = {"condition": "true", "result": "degraded", "count": 2, "within": "1h"}
    otherwise = {"condition": "true", "result": "healthy"}
    seen = [occurrence(xid(31, gpu=gpu), at=gpu) for gpu in range(3)]

    per_gpu = judge(engine(counting, otherwise), *seen)
    per_node = judge(engine({**counting, "per": "node"}, otherwise), *seen)

    assert healths(per_gpu) == [Health.HEALTHY] * 3
    assert healths(per_node) == [Health.HEALTHY, Health.DEGRADED, Health.DEGRADED]


def test_events_of_one_report_are_counted_together() -> None:
    rules = engine(
        {"condition": "true", "result": "degraded", "count": 2, "within": "1h", "per": "node"},
        {"condition": "true", "result": "healthy"},
    )
    first = rules.judge(occurrence(xid(31, gpu=0)))

    second = rules.judge(occurrence(xid(31, gpu=1), at=0.1), beside=first.matches)

    assert healths([first, second]) == [Health.HEALTHY, Health.DEGRADED]


def test_a_repeated_event_counts_once_and_a_burst_by_its_times() -> None:
    rules = engine(
        {"condition": "true", "result": "degraded", "count": 3, "within": "1h"},
        {"condition": "true", "result": "healthy"},
    )
    again = occurrence(xid(31, pid=7), at=5)

    assert healths(judge(rules, again, again, again)) == [Health.HEALTHY] * 3
    burst = occurrence(xid(31, pid=8, times=2), at=6)
    assert healths(judge(rules, burst)) == [Health.DEGRADED]


def test_distinct_processes_are_counted_and_crash_loops_are_not() -> None:
    rule = {"condition": "true", "result": "degraded", "count": 2, "within": "24h"}
    rules = engine({**rule, "distinct": "pid"}, {"condition": "true", "result": "healthy"})

    loop = judge(rules, *(occurrence(xid(31, pid=7), at=at) for at in range(5)))
    other = judge(rules, occurrence(xid(31, pid=8), at=10))

    assert healths(loop) == [Health.HEALTHY] * 5
    assert healths(other) == [Health.DEGRADED]


def test_a_rule_may_require_several_sources() -> None:
    rules = engine(
        {"condition": "true", "result": "unhealthy", "sources": 2},
        {"condition": "true", "result": "healthy"},
    )

    alone, together = judge(
        rules, occurrence(xid(79)), occurrence(xid(79, sources="kmsg,nvml"), at=1)
    )

    assert healths([alone, together]) == [Health.HEALTHY, Health.UNHEALTHY]


def test_a_rule_may_apply_to_some_phases_only() -> None:
    rules = engine(
        {"condition": "true", "result": "healthy", "phases": ["booting", "resetting"]},
        {"condition": 'phase == "idle"', "result": "degraded"},
    )
    result = CheckResult(check="nvlink", health=Health.UNHEALTHY, reason="link 3 is down")

    found = [rules.judge(occurrence(result, phase=phase)).health for phase in MachinePhase]

    assert dict(zip(MachinePhase, found, strict=True)) == {
        MachinePhase.BOOTING: Health.HEALTHY,
        MachinePhase.IDLE: Health.DEGRADED,
        MachinePhase.BUSY: Health.UNHEALTHY,
        MachinePhase.RESETTING: Health.HEALTHY,
        MachinePhase.DRAINING: Health.UNHEALTHY,
    }


def test_a_rule_may_use_the_gpus_existing_conditions() -> None:
    wrong = Condition(
        check="xid/63/GPU-0",
        health=Health.DEGRADED,
        reason="",
        since=NOW,
        facts={"gpu": "GPU-0", "code": "63"},
    )
    node = a_node("training-0", conditions=(wrong,))
    rules = engine(
        {"condition": "63 in gpu.codes && event.metrics.xid_code == 94", "result": "unhealthy"},
        {"condition": "true", "result": "healthy"},
    )

    sick = rules.judge(occurrence(xid(94, gpu=0), node=node))
    sound = rules.judge(occurrence(xid(94, gpu=1), node=node))

    assert healths([sick, sound]) == [Health.UNHEALTHY, Health.HEALTHY]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"phase": Phase.BOOTING, "registered_at": None}, MachinePhase.BOOTING),
        ({"booted_at": NOW - timedelta(minutes=1)}, MachinePhase.BOOTING),
        ({"phase": Phase.DRAINING}, MachinePhase.DRAINING),
        ({}, MachinePhase.BUSY),
    ],
)
def test_the_phase_of_a_machine_follows_from_its_node(
    facts: dict[str, object], expected: MachinePhase
) -> None:
    node = a_node("n", **facts)  # type: ignore[arg-type]

    assert machine_phase(node, now=NOW, boot_grace=timedelta(minutes=5)) is expected


def test_a_machine_is_idle_by_its_utilization_and_resetting_by_its_commands() -> None:
    node, grace = a_node("n"), timedelta(minutes=5)

    assert machine_phase(node, now=NOW, boot_grace=grace, utilization_pct=0.0) == "idle"
    assert machine_phase(node, now=NOW, boot_grace=grace, utilization_pct=90.0) == "busy"
    assert machine_phase(node, now=NOW, boot_grace=grace, asked=["reset_gpu"]) == "resetting"


def test_measurements_sent_as_text_are_converted_to_numbers() -> None:
    facts = {"metrics.temperature": "95.5", "metrics.ecc_dbe_count": "3", "event_type": "thermal"}
    result = CheckResult(check="health_events", health=Health.HEALTHY, facts=facts)

    assert is_occurrence(result)
    event = variables(occurrence(result))["event"]
    assert event["metrics"] == {"temperature": 95.5, "ecc_dbe_count": 3}
    assert (event["event_type"], event["gpu_index"]) == ("thermal", -1)
    assert [value_of(text) for text in ("7", "-1", "0.5", "true", "x")] == [7, -1, 0.5, True, "x"]


def test_only_faults_and_events_are_judged() -> None:
    fine = CheckResult(check="pcie", health=Health.HEALTHY)
    blind = CheckResult(check="pcie", health=Health.UNKNOWN, reason="cannot look")

    assert not is_occurrence(fine)
    assert not is_occurrence(blind)
    assert not is_occurrence(CheckResult(check=TESTING, health=Health.DEGRADED))
    assert is_occurrence(xid(31))


def test_the_journal_keeps_enough_of_an_event_to_judge_it_again() -> None:
    node = a_node("training-3", boot_id="b", gpus=8)
    seen = occurrence(xid(31, gpu=2, pid=7, sources="kmsg,nvml"), node=node)
    verdict = Engine(default_policy()).judge(seen)

    kept = occurrence_of(finding_event(seen, verdict, default_policy(), now=NOW))

    assert kept is not None
    assert variables(kept) == variables(seen)
    assert kept.node.id == NodeId("training-3")
    assert (kept.fact("pid"), kept.sources) == ("b/7", ("kmsg", "nvml"))
