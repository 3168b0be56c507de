"""Text output of incidents and policies."""

from datetime import timedelta

import pytest

from navarch.cli.render.events import render_incident, render_incidents
from navarch.cli.render.policy import render_comparison, render_policy, render_trial
from navarch.cli.render.table import Canvas
from navarch.config.policy import default_policy, parse_policy
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.health import CheckResult, Health
from navarch.core.ids import IncidentId, NodeId, PoolName
from navarch.core.incident import Incident, IncidentKind, IncidentState, Symptom
from navarch.core.records import evolve
from navarch.health.policy.counterfactual import PolicyOutcome, compare_policies
from navarch.health.policy.engine import Engine
from navarch.health.policy.history import finding_event
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.policy import MachinePhase
from navarch.ports.fleet_health import HeldNode
from navarch.testing.worlds import NOW, a_node

NARROW = Canvas(width=80, color=False, now=NOW)
NODE = NodeId("training-12")


def symptom(code: str, at: float, count: int = 1) -> Symptom:
    when = NOW - timedelta(minutes=5) + timedelta(seconds=at)
    return Symptom(
        check=f"xid/{code}/GPU-8f0e",
        code=code,
        reason=f"XID {code} on GPU 3: {'something that takes some words to say ' * 2}",
        node=NODE,
        gpu="GPU-8f0e",
        first_at=when,
        last_at=when,
        count=count,
    )


INCIDENT = Incident(
    id=IncidentId("inc-0123456789ab"),
    kind=IncidentKind.HARDWARE,
    node=NODE,
    nodes=(NODE,),
    pool=PoolName("training"),
    opened_at=NOW - timedelta(minutes=5),
    last_at=NOW - timedelta(minutes=4),
    title="XID 48 on GPU 3: memory that error correction could not save; reset the GPU",
    check="xid/48/GPU-8f0e",
    code="48",
    action="reset_gpu",
    gpus=("GPU-8f0e",),
    boot_id="boot-1",
    symptoms=(symptom("48", 0), symptom("45", 0.3, 12)),
)


def lines_of(text: str) -> list[str]:
    assert max(map(len, text.splitlines())) <= 80, text
    return text.splitlines()


def test_the_incident_list_fits_eighty_columns() -> None:
    header, row = lines_of(render_incidents([INCIDENT], NARROW))

    assert header.split()[:2] == ["Incident", "Node"]
    assert row.startswith("inc-0123456789ab  training-12")
    assert "Open" in row
    assert "XID 48" in row
    assert render_incidents([], NARROW) == "No incidents found"


def test_incident_get_shows_the_cause_and_the_symptoms() -> None:
    lines = lines_of(render_incident(INCIDENT, NARROW))

    assert "Cause:       xid/48/GPU-8f0e on training-12" in lines
    assert "Action:      reset gpu" in lines
    assert any("xid/48/GPU-8f0e (cause)" in line for line in lines)
    assert any(line.split()[1:2] == ["12"] for line in lines), "how often a symptom was seen"


@pytest.mark.parametrize("by", list(DeferredBy))
def test_a_held_incident_shows_the_reason_and_how_to_release_it(by: DeferredBy) -> None:
    why = "nodes with driver 570 (was 550) show xid 48; the change is suspected, not the nodes"
    held = Deferred(action="replace", reason="unhealthy", because=why, by=by, since=NOW)
    waiting = HeldNode(node=NODE, pool=PoolName("training"), held=held)

    text = render_incident(INCIDENT, NARROW, [waiting])

    flat = " ".join(" ".join(lines_of(text)).split())
    assert f"Held: training-12: replace, because {why}" in flat
    released = "navarch incident release inc-0123456789ab" in flat
    undecided = (DeferredBy.DRY_RUN, DeferredBy.REMEDIATOR)
    assert released is (by not in undecided), "there is no decision that could go ahead"


@pytest.mark.parametrize("state", list(IncidentState))
def test_every_incident_state_has_a_label(state: IncidentState) -> None:

    assert state.title() in render_incidents([evolve(INCIDENT, state=state)], NARROW)


def seen(code: int, fatal: bool, at: float) -> Occurrence:
    result = CheckResult(
        check=f"xid/{code}/GPU-0",
        health=Health.UNHEALTHY if fatal else Health.HEALTHY,
        fatal=fatal,
        lasting=True,
        action="reboot_node" if fatal else "restart_app",
        reason=f"XID {code} on GPU 0: a sentence that goes on for quite a while, as they do",
        facts={"code": str(code), "gpu": "GPU-0"},
    )
    moment = NOW - timedelta(days=2) + timedelta(seconds=at)
    return Occurrence(result=result, node=a_node("training-0"), at=moment, phase=MachinePhase.BUSY)


MILD = """
metadata: {name: mild, description: Lets crashes be.}
rules:
  - name: three crashes
    condition: event.metrics.xid_code == 31
    result: degraded
    count: 3
    within: 1h
  - name: lost
    condition: event.metrics.xid_code == 79
    result: degraded
    action: none
"""


def test_policy_diff_lists_every_action_added_or_removed() -> None:
    default, mild = default_policy(), parse_policy(MILD)
    engine = Engine(default)
    history = [seen(31, False, at) for at in (0, 10, 20)] + [seen(79, True, 30)]
    events = [finding_event(each, engine.judge(each), default, now=each.at) for each in history]

    comparison = compare_policies(default, mild, events)

    assert [(d.old.words, d.new.words) for d in comparison.differences] == [
        ("healthy, restart app", "degraded, restart app"),
        ("unhealthy, fatal, reboot node", "degraded"),
    ]
    assert (comparison.old.fatal, comparison.new.fatal) == (1, 0)
    lines = lines_of(render_comparison(comparison, default, mild, NARROW))
    assert lines[0].startswith("4 events since")
    assert any(line.split() == ["nodes", "taken", "out", "1", "0", "-1"] for line in lines)
    same = compare_policies(default, default, events)
    assert same.differences == ()
    assert "nothing to compare" in render_comparison(
        compare_policies(default, mild, []), default, mild, NARROW
    )


def test_policy_diff_counts_occurrences_before_its_start() -> None:
    default, mild = default_policy(), parse_policy(MILD)
    engine = Engine(default)
    history = [seen(31, False, at) for at in (0, 10, 20)]
    events = [finding_event(each, engine.judge(each), default, now=each.at) for each in history]

    comparison = compare_policies(default, mild, events, start=history[2].at)

    assert comparison.events == 1
    (difference,) = comparison.differences
    assert difference.new.words == "degraded, restart app", "the third within the hour"
    assert sum(comparison.new.verdicts.values()) == 1


def test_policy_show_and_policy_test_print_rules_and_outcomes() -> None:
    lines = lines_of(render_policy(parse_policy(MILD), NARROW))
    assert lines[0] == "Policy mild"
    assert any("three crashes" in line and "count 3" in line for line in lines)

    outcome = PolicyOutcome(health=Health.DEGRADED, fatal=False, action="none", rule="lost")
    assert render_trial([outcome], ["a: no such key"]).splitlines() == [
        "degraded (rule lost)",
        "could not be evaluated: a: no such key",
    ]
