"""Which findings belong to one incident, and its cause."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.core.health import CheckResult, Condition, Health
from navarch.core.incident import SILENCE, Incident, IncidentKind, IncidentState
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.health.checks.xid import assess_xid, describe_xid, label
from navarch.health.incidents.finding import Finding, finding_of
from navarch.health.incidents.grouping import group
from navarch.health.incidents.status import close_if_over, update_incident
from navarch.testing.worlds import NOW, a_node

NODE = a_node("training-0", boot_id="boot-1")
RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"


def xid(
    code: int,
    at: float = 0.0,
    *,
    gpu: int = 0,
    pid: int | None = None,
    text: str = "",
    node: Node = NODE,
) -> Finding:
    """Return an XID `at` seconds after the start, assessed by the catalogue."""
    assessment = assess_xid(code, text)
    facts = {
        "code": str(code),
        "gpu": f"GPU-{gpu}",
        "class": str(assessment.entry.origin),
        "text": text,
    }
    if pid is not None:
        facts["pid"] = str(pid)
    result = CheckResult(
        check=f"xid/{code}/GPU-{gpu}",
        health=assessment.health,
        reason=f"{label(code)} on GPU {gpu}: {describe_xid(assessment, text)}",
        fatal=assessment.fatal,
        lasting=True,
        action=str(assessment.action),
        facts=facts,
    )
    return finding_of(node, result, NOW + timedelta(seconds=at))


def check(name: str, at: float = 0.0, *, health: Health = Health.DEGRADED) -> Finding:
    result = CheckResult(check=name, health=health, reason=f"{name} is bad")
    return finding_of(NODE, result, NOW + timedelta(seconds=at))


def one(incidents: Sequence[Incident]) -> Incident:
    (incident,) = incidents
    return incident


def reported(*bursts: Iterable[Finding]) -> list[Incident]:
    """Return the incidents after each of `bursts` was reported in turn."""
    known: dict[str, Incident] = {}
    for burst in bursts:
        known |= {i.id: i for i in group(known.values(), burst)}
    return list(known.values())


def test_a_memory_error_and_its_consequences_are_one_incident() -> None:
    burst = [xid(48), xid(171, 0.1), xid(63, 0.2), xid(45, 0.3, pid=7), xid(154, 0.4, text=RESET)]

    incident = one(reported(burst))

    assert (incident.kind, incident.code, incident.action) == ("hardware", "48", "reset_gpu")
    assert [symptom.code for symptom in incident.symptoms] == ["48", "171", "63", "45", "154"]
    assert incident.gpus == ("GPU-0",)


@pytest.mark.parametrize("name", ["spot_notice", "spot_notice/provider", "maintenance"])
def test_a_provider_notice_neither_opens_nor_joins_an_incident(name: str) -> None:
    assert reported([check(name)]) == []
    incident = one(reported([xid(48)], [check(name, 0.1)]))
    assert [symptom.check for symptom in incident.symptoms] == ["xid/48/GPU-0"]


def test_symptoms_reported_before_their_cause_join_its_incident() -> None:
    first = [xid(45, 0.3, pid=7), xid(45, 0.4, pid=8), xid(43, 0.5, pid=9)]

    incidents = reported(first, [xid(48, 0.0)])

    still_open = one([i for i in incidents if i.is_open])
    assert (still_open.code, still_open.kind, still_open.pid) == ("48", "hardware", "")
    assert sum(s.count for s in still_open.symptoms) == 4
    closed = [i for i in incidents if not i.is_open]
    assert {i.note for i in closed} == {f"part of {still_open.id}"}
    assert {i.state for i in closed} == {IncidentState.RESOLVED}


def test_a_fabric_fault_on_eight_gpus_is_one_incident() -> None:
    """As published for a B200: 149 at +0.6 ms, 45 at +283 ms, 154 at +404 ms, on all eight."""
    bursts = [
        [xid(149, 0.0006 + gpu / 1e4, gpu=gpu) for gpu in range(8)],
        [xid(45, 0.283, gpu=gpu, pid=100 + gpu) for gpu in range(8)],
        [xid(154, 0.404, gpu=gpu, text=RESET) for gpu in range(8)],
    ]

    for incident in (one(reported(*bursts)), one(reported([f for burst in bursts for f in burst]))):
        assert (incident.kind, incident.code) == ("fabric", "149")
        assert incident.check == "xid/149/GPU-0", "the earliest device is where it began"
        assert len(incident.gpus) == 8
        assert sum(symptom.count for symptom in incident.symptoms) == 24
        assert incident.action == "reset_gpu", "the driver's word counts for more than the table"


def test_nodes_of_one_nvlink_domain_share_an_incident_and_other_nodes_do_not() -> None:
    def rack(name: str, domain: str) -> Node:
        return a_node(name, labels={"nvlink_domain": domain}, boot_id=name)

    tray, other = rack("tray-0", "rack-1"), rack("tray-1", "rack-1")
    unrelated, loner = rack("tray-2", "rack-2"), a_node("box", boot_id="b")

    incidents = reported(
        *([xid(74, at, node=n)] for at, n in enumerate((tray, other, unrelated, loner)))
    )

    assert [i.nodes for i in incidents] == [("tray-0", "tray-1"), ("tray-2",), ("box",)]
    assert [i.domain for i in incidents] == ["rack-1", "rack-2", "box"]
    assert incidents[0].node == "tray-0"


def test_link_errors_of_peers_join_the_incident_of_a_gpu_off_the_bus() -> None:
    burst = [xid(79, gpu=3), *(xid(74, 0.1, gpu=gpu) for gpu in range(8)), check("gpu", 2.0)]

    incident = one(reported(burst))

    assert (incident.code, incident.check, incident.action) == ("79", "xid/79/GPU-3", "reboot_node")


def test_every_crashed_process_is_a_separate_incident() -> None:
    incidents = reported([xid(31, pid=7)], [xid(31, 1.5, pid=8)], [xid(43, 1.6, pid=8)])

    assert [(i.pid, i.code, i.action) for i in incidents] == [
        ("7", "31", "restart_app"),
        ("8", "31", "restart_app"),
    ]
    assert {i.kind for i in incidents} == {IncidentKind.APPLICATION}


def test_lines_without_a_process_join_the_process_named_right_after_them() -> None:
    incident = one(reported([xid(13)], [xid(43, 0.05, pid=522)]))

    assert (incident.code, incident.pid) == ("13", "522")


def test_a_pid_reused_after_a_reboot_or_much_later_is_another_process() -> None:
    rebooted = evolve(NODE, boot_id="boot-2")
    later = SILENCE.total_seconds() + 1

    incidents = reported(
        [xid(31, pid=7)], [xid(31, 60, pid=7, node=rebooted)], [xid(31, later, pid=7)]
    )

    assert len(incidents) == 3


def test_an_unrepaired_device_keeps_its_incident_after_any_silence() -> None:
    incident = one(reported([xid(48)], [xid(95, 3600)]))

    assert (incident.code, len(incident.symptoms)) == ("48", 2)


def test_a_crash_on_a_gpu_with_an_old_incident_is_a_separate_incident() -> None:
    incidents = reported([xid(63)], [xid(31, 3600, pid=7)])

    assert [i.kind for i in incidents] == ["hardware", "application"]


def test_an_error_that_the_driver_attributes_to_another_is_never_the_cause() -> None:
    follower = xid(109, 0.0, text="channel 3 caused by previous Xid 62")

    assert one(reported([follower, xid(62, 0.1)])).code == "62"


def test_a_healthy_finding_opens_no_incident() -> None:
    assert reported([xid(162)], [xid(162, 1, gpu=1)]) == []


def test_host_faults_are_separate_incidents() -> None:
    incidents = reported([check("disk"), check("infiniband"), xid(48)], [check("disk", 60)])

    assert sorted(i.kind for i in incidents) == ["hardware", "host", "network"]
    assert [i.symptoms[0].count for i in incidents if i.kind == "host"] == [2]


def test_an_incident_ends_with_silence_unless_a_condition_remains() -> None:
    incident = one(reported([xid(48)]))
    early, late = NOW + SILENCE / 2, NOW + SILENCE
    wrong = Condition(check="xid/48/GPU-0", health=Health.UNHEALTHY, reason="", since=NOW)
    sick = evolve(NODE, conditions=(wrong,))

    assert close_if_over(incident, [NODE], now=early) is None
    assert close_if_over(incident, [sick], now=late) is None
    over = close_if_over(incident, [NODE], now=late)
    assert over is not None
    assert (over.state, over.closed_at) == (IncidentState.RESOLVED, late)
    gone = evolve(sick, phase=Phase.GONE)
    update = update_incident(incident, {NODE.id: gone}, {}, now=early)
    assert update is not None
    assert update[0].state is IncidentState.RESOLVED


@pytest.mark.parametrize("state", [IncidentState.RECOVERING, IncidentState.HELD])
def test_an_incident_with_a_recovery_or_hold_is_not_closed_by_silence(state: IncidentState) -> None:
    incident = evolve(one(reported([xid(48)])), state=state)

    assert close_if_over(incident, [NODE], now=NOW + 10 * SILENCE) is None


FINDINGS = st.lists(
    st.builds(
        xid,
        st.sampled_from([13, 31, 43, 45, 48, 63, 74, 79, 149, 162]),
        st.floats(0, 400),
        gpu=st.integers(0, 3),
        pid=st.sampled_from([None, 7, 8]),
    ),
    max_size=20,
)


@settings(max_examples=200, deadline=None)
@given(FINDINGS)
def test_every_finding_that_opens_an_incident_is_a_symptom_of_one(findings: list[Finding]) -> None:
    incidents = reported(*([finding] for finding in findings))

    symptoms = {(s.check, s.node) for i in incidents if i.is_open for s in i.symptoms}
    assert {(f.result.check, f.node.id) for f in findings if f.opens} <= symptoms


def test_a_repeated_observation_without_a_process_joins_the_same_incident() -> None:
    findings = [
        xid(13, 0.0, gpu=0, pid=7),
        xid(13, 6.0, gpu=0, pid=7),
        xid(13, 0.0, gpu=0, pid=None),
    ]
    incidents = group([], findings)
    assert {i.id for i in group(incidents, findings)} <= {i.id for i in incidents}


@settings(max_examples=100, deadline=None)
@given(FINDINGS)
def test_grouping_the_same_findings_again_opens_no_incident(findings: list[Finding]) -> None:
    incidents = group([], findings)

    again = group(incidents, findings)

    known = {incident.id for incident in incidents}
    assert {incident.id for incident in again} <= known


@pytest.mark.parametrize(
    ("pci", "slot"),
    [
        ("0000:1b:00", "0000:1b:00"),
        ("00000000:1B:00.0", "0000:1b:00"),
        ("PCI:0000:1b:00", "0000:1b:00"),
        ("", ""),
        ("nowhere", ""),
    ],
)
def test_an_incident_keeps_the_slots_of_its_gpus_in_one_format(pci: str, slot: str) -> None:
    first, second = xid(48, 0.0, gpu=0), xid(79, 1.0, gpu=0)
    seen = [
        finding_of(each.node, evolve(each.result, facts={**each.result.facts, "pci": pci}), each.at)
        for each in (first, second)
    ]

    (found,) = group([], seen)

    assert found.slots == ((slot,) if slot else ())
