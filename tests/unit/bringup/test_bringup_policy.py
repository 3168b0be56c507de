"""Command templates, and the next step for a machine that is set up."""

import shlex
import subprocess
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core.bringup import BringUpLog, check_template, fill_in, without_secrets
from navarch.core.errors import InvalidError
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.machine_setup import MachineSetup
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.bringup import AbandonMachine, Finished, Run, Wait, next_step, progressed
from navarch.testing.worlds import H100, NOW

SETUP = MachineSetup(commands=("true",))


def a_machine(*, public: str = "203.0.113.7", private: str = "10.0.0.7") -> Node:
    launch = Launch(
        token=Token("t-1"),
        node=NodeId("training-0"),
        pool=PoolName("training"),
        offering=H100,
        asked_at=NOW,
        instance=InstanceId("i-1"),
        public_address=public,
        private_address=private,
    )
    return Node(
        id=NodeId("training-0"),
        pool=PoolName("training"),
        phase=Phase.BOOTING,
        since=NOW,
        created_at=NOW,
        launch=launch,
    )


def an_attempt(number: int = 1, **changes: object) -> BringUpLog:
    log = BringUpLog(
        id=f"t-1.{number}",
        node=NodeId("training-0"),
        pool=PoolName("training"),
        launch=Token("t-1"),
        attempt=number,
        address="203.0.113.7",
        started_at=NOW,
        ended_at=NOW,
        error="command 1 failed: exit code 2",
    )
    return replace(log, **changes)  # type: ignore[arg-type]


def step(
    setup: MachineSetup, node: Node, *logs: BringUpLog, after: timedelta = timedelta(0)
) -> object:
    return next_step(setup, node, logs, unanswered_since=None, now=NOW + after)


def test_the_variables_of_the_go_system_are_filled_in() -> None:
    values = {"ControlPlane": "http://10.0.0.1:50051", "NodeID": "training-0", "Pool": "training"}
    command = "install --server {{.ControlPlane}} --node {{ .NodeID }} --pool {{.Pool}}"
    assert fill_in(command, values) == (
        "install --server http://10.0.0.1:50051 --node training-0 --pool training"
    )


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
def test_every_value_is_quoted_as_one_word(value: str) -> None:
    assert shlex.split(fill_in("run {{.Region}}", {"Region": value})) == ["run", value]


def test_a_shell_reads_a_hostile_value_as_plain_text() -> None:
    nasty = "x'; touch /tmp/owned; echo $(id) `id` \\ \"\n{{.Pool}}"
    command = fill_in("printf %s {{.NodeID}}", {"NodeID": nasty, "Pool": "p"})
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=True).stdout == (
        nasty.encode()
    )


@pytest.mark.parametrize("word", ["{{.Secret}}", "{{NodeID}}", "{{.NodeID | printf}}", "{{}}"])
def test_an_unknown_variable_is_refused_by_name(word: str) -> None:
    with pytest.raises(InvalidError, match="is no variable; there are"):
        check_template(f"echo {word}")


def test_braces_of_the_shell_are_left_alone() -> None:
    assert fill_in("echo ${HOME} {a,b} $((1+1))", {}) == "echo ${HOME} {a,b} $((1+1))"


def test_secrets_are_redacted_from_stored_output() -> None:
    assert without_secrets("token=abc, and again abc", ["abc", ""]) == (
        "token=[secret], and again [secret]"
    )


def test_a_machine_with_an_address_is_set_up_at_once() -> None:
    assert step(SETUP, a_machine()) == Run(address="203.0.113.7", attempt=1)


def test_the_private_address_is_used_if_the_pool_requires_it() -> None:
    inside = evolve(SETUP, private_address=True)
    assert step(inside, a_machine()) == Run(address="10.0.0.7", attempt=1)
    assert step(inside, a_machine(private="")) == Run(address="203.0.113.7", attempt=1)
    assert step(SETUP, a_machine(public="")) == Run(address="10.0.0.7", attempt=1)


def test_a_machine_without_an_address_is_abandoned_after_a_wait() -> None:
    nowhere = a_machine(public="", private="")
    limit = SETUP.address_within
    assert step(SETUP, nowhere) == Wait(until=NOW + limit)
    assert isinstance(step(SETUP, nowhere, after=limit), AbandonMachine)


def test_a_machine_that_was_set_up_is_left_alone() -> None:
    assert step(SETUP, a_machine(), an_attempt(succeeded=True)) == Finished()


def test_the_success_of_an_earlier_machine_does_not_count_for_this_one() -> None:
    other = an_attempt(succeeded=True, launch=Token("t-0"))
    assert step(SETUP, a_machine(), other) == Run(address="203.0.113.7", attempt=1)


def test_a_failure_is_retried_with_growing_delays() -> None:
    assert step(SETUP, a_machine(), an_attempt()) == Wait(until=NOW + timedelta(seconds=5))
    twice = (an_attempt(), an_attempt(2))
    assert step(SETUP, a_machine(), *twice) == Wait(until=NOW + timedelta(seconds=10))
    assert step(SETUP, a_machine(), *twice, after=timedelta(seconds=10)) == Run(
        address="203.0.113.7", attempt=3
    )


def test_the_last_failure_abandons_the_machine_with_its_reason() -> None:
    thrice = [an_attempt(i) for i in (1, 2, 3)]
    assert step(SETUP, a_machine(), *thrice) == AbandonMachine(
        reason="setting it up failed 3 times: command 1 failed: exit code 2"
    )


def test_an_attempt_interrupted_by_a_crash_counts() -> None:
    cut = an_attempt(ended_at=None, error="")
    once = evolve(SETUP, attempts_max=1)
    assert isinstance(step(once, a_machine(), cut, after=timedelta(hours=1)), AbandonMachine)


def test_a_machine_that_never_responds_is_abandoned() -> None:
    node = a_machine()
    late = NOW + SETUP.answer_within
    assert next_step(SETUP, node, (), unanswered_since=NOW, now=late) == AbandonMachine(
        reason="SSH did not answer within 0:10:00"
    )


def test_a_step_of_the_set_up_is_recorded_with_the_machine_that_took_it() -> None:
    node = a_machine()
    change = progressed(node, Token("t-1"), "SSH has answered", now=NOW)
    assert change is not None
    (after,) = change.nodes
    assert after.launch is not None
    assert after.launch.progress is not None
    assert (after.launch.progress.step, after.launch.progress.at) == ("SSH has answered", NOW)
    assert progressed(node, Token("t-2"), "SSH has answered", now=NOW) is None, "an earlier machine"
    registered = evolve(node, phase=Phase.READY)
    assert progressed(registered, Token("t-1"), "SSH has answered", now=NOW) is None
