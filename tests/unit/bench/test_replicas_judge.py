"""The judge of the replicas benchmark finds each thing that must not happen, and nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from bench.replicas_judge import (
    CONVERGED_S,
    Disruption,
    Ledger,
    Records,
    Write,
    WriteKind,
    repeated_terminations,
    take_overs,
    violations,
)
from bench.replicas_schedule import UNTIL_S, Kind, make_schedule
from tests.support.ec2_server import Ec2Effect

from navarch.core.event import Event, Recorded, about


def scale(number: int, size: int, *, unsure: bool = False) -> Write:
    return Write(
        number=number,
        kind=WriteKind.SCALE,
        subject="training",
        value=size,
        acknowledged=True,
        unsure=unsure,
    )


def mark(number: int, kind: WriteKind, node: str) -> Write:
    return Write(number=number, kind=kind, subject=node, acknowledged=True)


def journal(*events: tuple[str, str, str]) -> list[Recorded]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Recorded(
            number=number,
            revision=number,
            event=Event(
                at=now,
                about=about(*subject.split("/")),
                kind=kind,
                reason=reason,
                facts={"health": reason.split(":")[0]},
            ),
        )
        for number, (subject, kind, reason) in enumerate(events, start=1)
    ]


def scaled(before: int, after: int, number: int) -> tuple[str, str, str]:
    reason = f"{before} to {after} nodes: operator-write-{number:04}"
    return "pool/training", "pool.scaled", reason


def launch(node: str, machine: str) -> Ec2Effect:
    tags = {"navarch-node": node, "navarch-pool": "training"}
    return Ec2Effect(at=0.0, action="RunInstances", caller="a-1", tags=tags, machines=[machine])


def end(machine: str, *, at: float = 1.0, caller: str = "a-1", delivered: bool = True) -> Ec2Effect:
    return Ec2Effect(
        at=at,
        action="TerminateInstances",
        caller=caller,
        machines=[machine],
        delivered=delivered,
    )


def sound() -> Records:
    """Return records of a fleet that grew to three nodes and shrank to two, with nothing lost."""
    return Records(
        ledger=Ledger(
            writes=[scale(1, 3), scale(2, 2), mark(3, WriteKind.CORDON, "training-0")],
            jobs={"record-0": 1.0},
            acknowledged_at=[(1.0, 1.1), (12.0, 12.5)],
        ),
        journal=journal(
            scaled(0, 3, 1),
            scaled(3, 2, 2),
            ("node/training-0", "node.cordoned", "operator-write-0003"),
            ("node/training-0", "node.health", "healthy: every check passes"),
        ),
        jobs={"record-0"},
        in_service={"training-0": "operator-write-0003", "training-1": None},
        effects=[
            launch("training-0", "i-0"),
            launch("training-1", "i-1"),
            launch("training-2", "i-2"),
            end("i-2"),
        ],
        broken=frozenset(),
        disruptions=[Disruption(fault="kill", since=10.0)],
    )


def with_writes(*writes: Write) -> Records:
    return replace(sound(), ledger=replace(sound().ledger, writes=list(writes)))


def test_a_schedule_in_which_nothing_was_lost_has_no_violations() -> None:
    assert violations(sound()) == {}


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ("acknowledged_writes_lost", {"journal": sound().journal[:1]}),
        ("acknowledged_writes_lost", {"journal": journal(scaled(0, 2, 2), scaled(2, 3, 1))}),
        ("acknowledged_writes_lost", {"jobs": frozenset()}),
        ("acknowledged_writes_lost", {"in_service": {"training-0": None}}),
        (
            "acknowledged_writes_lost",
            {"journal": [*sound().journal, *journal(scaled(2, 5, 9))]},
        ),
        ("double_launches", {"effects": [*sound().effects, launch("training-0", "i-9")]}),
        ("double_launches", {"effects": [*sound().effects, launch("training-9", "i-9")]}),
        ("double_terminations", {"effects": [*sound().effects, end("i-2", at=5.0)]}),
        (
            "double_terminations",
            {"effects": [*sound().effects, end("i-2", at=5.0, caller="b-1")]},
        ),
        ("sound_nodes_lost", {"effects": [*sound().effects, end("i-1")]}),
        (
            "sound_nodes_lost",
            {
                "journal": [
                    *sound().journal,
                    *journal(("node/training-1", "node.health", "unhealthy: no report")),
                ]
            },
        ),
        ("servers_ended", {"ended_by_itself": ["replica-1, exit status 1"]}),
        ("not_converged", {"converged_s": None}),
        ("not_converged", {"converged_s": CONVERGED_S}),
        ("slow_take_overs", {"disruptions": [Disruption(fault="kill", since=7.0)]}),
        ("slow_take_overs", {"disruptions": [Disruption(fault="kill", since=99.0)]}),
    ],
)
def test_each_violation_is_found(found: str, changed: Mapping[str, object]) -> None:
    assert found in violations(replace(sound(), **changed))  # type: ignore[arg-type]


def test_a_lost_cordon_retirement_or_uncordon_is_found() -> None:
    lost = [
        with_writes(scale(1, 3), scale(2, 2), mark(3, WriteKind.CORDON, "training-1")),
        with_writes(scale(1, 3), scale(2, 2), mark(3, WriteKind.RETIRE, "training-1")),
        with_writes(scale(1, 3), scale(2, 2), mark(3, WriteKind.UNCORDON, "training-0")),
    ]
    assert all("acknowledged_writes_lost" in violations(each) for each in lost)


def test_a_write_of_unknown_outcome_may_have_had_an_effect_later_or_none() -> None:
    history = journal(scaled(0, 3, 1), scaled(3, 2, 3), scaled(2, 3, 2))
    late = with_writes(scale(1, 3), scale(2, 3, unsure=True), scale(3, 2))
    assert violations(replace(late, journal=history)) == {}
    repeated = with_writes(scale(1, 3), scale(2, 2, unsure=True), scale(3, 2))
    assert violations(replace(repeated, journal=sound().journal)) == {}


def test_a_node_that_failed_or_was_retired_may_be_ended_and_replaced() -> None:
    effects = [*sound().effects, end("i-1"), launch("training-3", "i-3")]
    failed = replace(sound(), effects=effects, broken={"training-1"})
    assert violations(failed) == {}
    assert set(violations(replace(failed, broken=frozenset()))) == {
        "double_launches",
        "sound_nodes_lost",
    }


def test_a_machine_may_be_ended_again_if_the_first_call_was_lost_or_is_in_flight() -> None:
    effects = sound().effects[:-1]
    for first in (end("i-2", delivered=False), end("i-2", at=4.5, caller="b-1")):
        again = replace(sound(), effects=[*effects, first, end("i-2", at=5.0)])
        assert violations(again) == {}
        assert repeated_terminations(again.effects) == 1


def test_a_take_over_ends_with_the_first_write_that_was_sent_after_the_fault() -> None:
    at = [Disruption(fault="kill", since=10.0), Disruption(fault="stop", since=11.0)]
    assert dict(take_overs(replace(sound(), disruptions=at))) == {"stop": 1.5}
    assert dict(take_overs(replace(sound(), disruptions=at[:1]))) == {"kill": 2.5}


def test_a_seed_has_one_schedule_with_at_most_one_failover() -> None:
    kinds = set()
    for seed in range(300):
        faults = make_schedule(seed)
        assert faults == make_schedule(seed)
        assert faults != make_schedule(seed + 1)
        assert all(fault.at_s <= UNTIL_S for fault in faults)
        assert [fault.kind for fault in faults].count(Kind.FAILOVER) <= 1
        kinds |= {fault.kind for fault in faults}
    assert kinds == set(Kind)
