"""Testimonies: what proves that a silent machine is dead, and what does not."""

from datetime import datetime, timedelta

import pytest

from navarch.core.instance import InstanceCheck, InstanceHealth
from navarch.core.witness import Testimony
from navarch.fleet.witnesses import OVERLAP_MAX, PROOF_AFTER, observation_of, testify
from navarch.ports.witness import Observation
from navarch.testing.worlds import NOW

DEAD = Observation(alive=False, reason="the status check failed")
SECOND = timedelta(seconds=1)


def given(
    observed: Observation,
    *,
    before: Testimony | None = None,
    last_report: datetime | None = None,
    now: datetime = NOW,
) -> Testimony:
    return testify("cloud", observed, before=before, last_report=last_report, now=now)


@pytest.mark.parametrize(
    ("health", "alive"),
    [
        (InstanceHealth.OK, None),
        (InstanceHealth.INITIALIZING, None),
        (InstanceHealth.RESPONDING, True),
        (InstanceHealth.IMPAIRED, False),
        (InstanceHealth.STOPPED, False),
        (InstanceHealth.TERMINATED, False),
    ],
)
def test_only_a_response_proves_life_and_only_a_failure_death(
    health: InstanceHealth, alive: bool | None
) -> None:
    assert observation_of(InstanceCheck(health=health, reason="so")).alive is alive


def test_a_machine_is_proven_dead_after_a_minute_of_the_same_observation() -> None:
    first = given(DEAD)
    assert (first.alive, first.since) == (None, NOW)
    again = given(DEAD, before=first, now=NOW + PROOF_AFTER - SECOND)
    assert again == first
    proof = given(DEAD, before=again, now=NOW + PROOF_AFTER)
    assert (proof.alive, proof.since) == (False, NOW)


def test_an_observation_in_between_starts_the_minute_anew() -> None:
    first = given(DEAD)
    fine = given(Observation(alive=None, reason="running"), before=first, now=NOW + 30 * SECOND)
    again = given(DEAD, before=fine, now=NOW + PROOF_AFTER)
    assert (again.alive, again.since) == (None, NOW + PROOF_AFTER)


def test_the_witness_may_have_recorded_the_beginning() -> None:
    dated = Observation(alive=False, reason="failed", since=NOW - 2 * PROOF_AFTER)
    assert given(dated).alive is False


def test_a_date_in_the_future_proves_nothing() -> None:
    dated = Observation(alive=False, reason="failed", since=NOW + timedelta(days=1))
    assert given(dated).alive is None
    assert given(dated).since == NOW


def test_a_machine_whose_agent_reported_while_it_was_observed_as_dead_is_not_dead() -> None:
    long_ago = Observation(alive=False, reason="the volume is impaired", since=NOW - 60 * SECOND)
    late = given(long_ago, last_report=NOW, now=NOW + timedelta(hours=1))
    assert late.alive is False, "a dying machine may report a little longer"
    reported = NOW - 60 * SECOND + OVERLAP_MAX + SECOND
    contradicted = given(long_ago, last_report=reported, now=NOW + timedelta(hours=1))
    assert contradicted.alive is None
    assert contradicted.reason == "the volume is impaired, but the agent reported after that"


def test_a_proof_stays_while_the_reason_changes() -> None:
    proof = given(DEAD, before=given(DEAD), now=NOW + PROOF_AFTER)
    worse = Observation(alive=False, reason="stopped")
    after = given(worse, before=proof, now=NOW + 2 * PROOF_AFTER)
    assert (after.alive, after.reason, after.since) == (False, "stopped", NOW)


def test_life_needs_no_minute() -> None:
    assert given(Observation(alive=True, reason="reports elsewhere")).alive is True
