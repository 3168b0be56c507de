"""The state of an incident follows from its nodes and recoveries."""

from datetime import timedelta

import pytest
from incident_world import CHECK, INCIDENT, NAME

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.health import Condition, Health
from navarch.core.ids import InstanceId, NodeId, ProviderName, RecoveryId
from navarch.core.incident import IncidentState
from navarch.core.node import Mark, Node, NotifiedState, Phase, Retirement, Silence
from navarch.core.records import evolve, record_fields
from navarch.core.recovery import Recovery, RecoveryAttempt, RecoveryState, RecoveryStep
from navarch.core.witness import Testimony
from navarch.health.incidents.status import (
    close_if_over,
    describe_state,
    incident_inputs,
    link_recoveries,
    with_current_state,
)
from navarch.testing.worlds import NOW, a_node

BROKEN = Condition(check=CHECK, health=Health.UNHEALTHY, reason="XID 79", since=NOW, lasting=True)
HELD = Deferred(
    action="replace", reason="XID 79", because="enough", by=DeferredBy.BUDGET, since=NOW
)
RECOVERY = Recovery(
    id=RecoveryId("r-1"),
    node=NAME,
    check=CHECK,
    cause="XID 79",
    boot_id="b",
    step=RecoveryStep.REBOOT,
    state=RecoveryState.ORDERED,
    since=NOW,
    begun_at=NOW,
)


def broken(**facts: object) -> Node:
    known = {"conditions": (BROKEN,), "health": Health.UNHEALTHY, "registered_at": NOW, **facts}
    return a_node(NAME, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "state"),
    [
        (broken(), IncidentState.OPEN),
        (broken(held=HELD), IncidentState.HELD),
        (broken(held=evolve(HELD, released="go")), IncidentState.OPEN),
        (broken(retiring=Retirement(reason="XID 79")), IncidentState.RECOVERING),
        (broken(retiring=Retirement(reason="fewer", surplus=True)), IncidentState.OPEN),
        (broken(recovery=RECOVERY.id), IncidentState.RECOVERING),
        (broken(conditions=(), held=HELD), IncidentState.OPEN),
    ],
    ids=["open", "held", "released", "replaced", "surplus", "mended", "another"],
)
def test_the_state_of_an_incident_follows_from_its_node(node: Node, state: IncidentState) -> None:
    assert with_current_state(INCIDENT, [node], {RECOVERY.id: RECOVERY}).state is state


def test_a_recovery_and_its_incident_reference_each_other() -> None:
    recoveries = {RECOVERY.id: RECOVERY}

    stands = with_current_state(INCIDENT, [broken(recovery=RECOVERY.id)], recoveries)

    assert stands.recovery == RECOVERY.id
    assert [each.incident for each in link_recoveries([stands], recoveries)] == [INCIDENT.id]
    known = {RECOVERY.id: evolve(RECOVERY, incident="inc-0")}
    assert link_recoveries([stands], known) == [], "the first incident keeps it"


def test_an_incident_ends_when_its_recovery_has_succeeded() -> None:
    going = evolve(INCIDENT, recovery=RECOVERY.id, state=IncidentState.RECOVERING)
    done = evolve(
        RECOVERY,
        state=RecoveryState.SUCCEEDED,
        ended_at=NOW,
        history=(
            RecoveryAttempt(step=RecoveryStep.REBOOT, at=NOW, outcome="the boot check passes"),
        ),
    )
    well = broken(conditions=(), health=Health.HEALTHY)
    later = NOW + timedelta(days=1)

    assert close_if_over(going, [well], {RECOVERY.id: RECOVERY}, now=later) is None
    stands = with_current_state(going, [well], {RECOVERY.id: done})
    over = close_if_over(stands, [well], {RECOVERY.id: done}, now=NOW)
    assert over is not None
    assert (over.state, over.note) == (IncidentState.RESOLVED, "mended: the boot check passes")


def test_fields_outside_incident_inputs_change_no_incident() -> None:
    unseen: dict[str, object] = {
        "phase": Phase.TERMINATING,
        "since": NOW + timedelta(hours=1),
        "cordoned": "by hand",
        "health": Health.DEGRADED,
        "replaces": NodeId("training-9"),
        "launch": None,
        "attempts": 3,
        "retry_at": NOW,
        "refused": broken().launch,
        "registered_at": None,
        "boot_id": "another",
        "machine": "a key",
        "booted_at": NOW,
        "offering": None,
        "gpus": 4,
        "labels": {"rack": "r1"},
        "topology": None,
        "gang": None,
        "waiting": True,
        "notified": NotifiedState.DRAINING,
        "report_stream": "s",
        "report_number": 7,
        "traits": {},
        "vouched_boot": "another",
        "acted_at": NOW,
        "address": "10.0.0.1",
        "dead_man_s": 600,
        "probes": True,
        "testimonies": (Testimony(witness="w", alive=None, reason="running", since=NOW),),
        "overridden_at": NOW,
        "past_silences": (Silence(since=NOW, until=NOW),),
        "mark": Mark(provider=ProviderName("sim"), instance=InstanceId("i-1")),
    }
    seen = {"conditions", "recovery", "retiring", "held"}
    assert {each.name for each in record_fields(Node)} == {
        *unseen,
        *seen,
        "id",
        "pool",
        "created_at",
    }

    for node in (broken(), broken(held=HELD), broken(retiring=Retirement(reason="x"))):
        other = evolve(node, **unseen)  # type: ignore[arg-type]
        assert incident_inputs(other) == incident_inputs(node)
        stands = [with_current_state(INCIDENT, [each], {}) for each in (node, other)]
        assert stands[0] == stands[1]
        assert describe_state(stands[0], {NAME: node}) == describe_state(stands[1], {NAME: other})
        later = NOW + timedelta(days=1)
        ends = [close_if_over(INCIDENT, [each], {}, now=later) for each in (node, other)]
        assert ends[0] == ends[1]
    gone = evolve(broken(), phase=Phase.GONE)
    assert incident_inputs(gone) != incident_inputs(broken())
