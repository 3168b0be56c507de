"""Steps of the ladder: preconditions, deadlines, verification and budgets."""

from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import CommandId, RecoveryId
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.core.recovery import (
    LADDER,
    Command,
    CommandStatus,
    Recovery,
    RecoveryAttempt,
    RecoveryState,
    RecoveryStep,
    Remediation,
    rung,
)
from navarch.fleet.recovery.ladder import Transition, advance, begin
from navarch.fleet.recovery.rules import RULES, RecoveryContext
from navarch.ports.remediator import Remedy, Treatment
from navarch.testing.worlds import NOW, a_node, a_pool

POOL = a_pool(remediation=Remediation(strategy="ladder"))
GROUND = RecoveryContext(pool=POOL, now=NOW, drained=True, can_reboot=True, can_power_cycle=True)
FAULT = Condition(
    check="xid/95/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 95",
    since=NOW,
    fatal=True,
    lasting=True,
    boot_id="boot-1",
    facts={"gpu": "GPU-0", "pid": "41"},
)
SICK = a_node("training-0", conditions=(FAULT,), health=Health.UNHEALTHY, boot_id="boot-1", gpus=8)
DONE_BY_US = list(RULES)
IDS = [str(step) for step in DONE_BY_US]


def recovery(step: RecoveryStep, node: Node = SICK, ground: RecoveryContext = GROUND) -> Recovery:
    treatment = Treatment(remedy=Remedy.RECOVER, reason="XID 95", step=step, check=FAULT.check)
    return begin(node, treatment, ground)


def order(found: Recovery, node: Node = SICK, ground: RecoveryContext = GROUND) -> Transition:
    """Return the transition that orders the step once the node is empty."""
    empty = evolve(node, phase=Phase.DRAINING)
    move = advance(found, empty, ground, lambda: CommandId("c1"))
    assert move is not None
    return move


def after(move: Transition, node: Node | None = None, **facts: object) -> Transition | None:
    ground = replace(GROUND, **{"command": move.command, **facts})  # type: ignore[arg-type]
    return advance(move.recovery, node or move.node, ground, lambda: CommandId("c2"))


def answered(command: Command | None, status: CommandStatus, result: str = "") -> Command:
    assert command is not None
    return evolve(command, status=status, result=result, ended_at=NOW)


# Preconditions


@pytest.mark.parametrize("step", [RecoveryStep.RESET_GPU, RecoveryStep.REBOOT], ids=str)
def test_a_node_is_drained_before_a_disruptive_step(step: RecoveryStep) -> None:
    busy = replace(GROUND, drained=False)
    found = recovery(step, ground=busy)

    move = advance(found, SICK, busy, lambda: CommandId("c1"))

    assert move is not None
    assert (move.kind, move.node.phase, move.command) == ("node.draining", Phase.DRAINING, None)
    assert advance(move.recovery, move.node, busy, lambda: CommandId("c1")) is None, "it waits"


@pytest.mark.parametrize(
    ("step", "ground", "why"),
    [
        (
            RecoveryStep.POWER_CYCLE,
            replace(GROUND, can_power_cycle=False),
            "no provider can power-cycle it",
        ),
        (
            RecoveryStep.REBOOT,
            replace(GROUND, pool=a_pool(remediation=Remediation(steps=(RecoveryStep.TICKET,)))),
            "the pool does not allow it",
        ),
        (
            RecoveryStep.REPLACE,
            replace(GROUND, pool=evolve(POOL, auto_replace=False)),
            "the pool replaces nothing",
        ),
    ],
    ids=["no power", "not allowed", "not replaced"],
)
def test_an_impossible_step_is_skipped_with_a_reason(
    step: RecoveryStep, ground: RecoveryContext, why: str
) -> None:
    found = recovery(step, ground=ground)
    assert rung(found.step) > rung(step)
    assert why in found.history[0].outcome


def test_steps_of_a_silent_agent_are_skipped_in_favour_of_the_provider() -> None:
    silence = Condition(check=HEARTBEAT, health=Health.UNHEALTHY, reason="silent", since=NOW)
    silent = evolve(SICK, conditions=(FAULT, silence))

    found = recovery(RecoveryStep.RESET_GPU, silent)
    move = order(found, silent)

    assert found.step is RecoveryStep.REBOOT, "nobody but the agent can reset a GPU"
    assert (move.command, move.ask_provider) == (None, True)


# Orders


@pytest.mark.parametrize("step", DONE_BY_US, ids=IDS)
def test_an_order_is_recorded_with_its_boot_and_counts_from_then_on(
    step: RecoveryStep,
) -> None:
    move = order(recovery(step))
    assert move.recovery.state is RecoveryState.ORDERED
    assert (move.recovery.ordered_boot, move.recovery.tries) == ("boot-1", {step: 1})
    if move.command is not None:
        assert move.command.parameters["boot_id"] == "boot-1"
    assert (move.command is None) is move.ask_provider
    assert after(move) is None, "it is not asked for again"


@pytest.mark.parametrize("step", DONE_BY_US, ids=IDS)
def test_nothing_is_ordered_after_another_boot(step: RecoveryStep) -> None:
    booted = evolve(SICK, boot_id="boot-2", phase=Phase.DRAINING)
    move = advance(recovery(step), booted, GROUND, lambda: CommandId("c1"))
    assert move is not None
    assert (move.recovery.state, move.command, move.ask_provider) == (
        RecoveryState.VOID,
        None,
        False,
    )
    assert move.node.recovery is None


@pytest.mark.parametrize("step", [RecoveryStep.RESTART_APP, RecoveryStep.RESET_GPU], ids=str)
def test_an_unexpected_boot_voids_the_running_step(step: RecoveryStep) -> None:
    move = order(recovery(step))
    voided = after(move, evolve(move.node, boot_id="boot-2"))
    assert voided is not None
    assert voided.recovery.state is RecoveryState.VOID


# Deadlines and verification


@pytest.mark.parametrize("step", DONE_BY_US, ids=IDS)
def test_a_step_that_times_out_is_followed_by_the_next(step: RecoveryStep) -> None:
    move = order(recovery(step))
    assert move.recovery.deadline == NOW + RULES[step].deadline

    assert after(move, now=NOW + RULES[step].deadline - timedelta(seconds=1)) is None
    climbed = after(move, now=NOW + RULES[step].deadline)

    assert climbed is not None
    outcomes = [attempt.outcome for attempt in climbed.recovery.history]
    assert "nothing came of it in time" in outcomes
    assert rung(climbed.recovery.step) == rung(step) + 1


@pytest.mark.parametrize("step", [s for s in DONE_BY_US if RULES[s].command], ids=str)
def test_a_step_refused_by_the_agent_is_followed_by_the_next_with_its_reason(
    step: RecoveryStep,
) -> None:
    move = order(recovery(step))
    message = "the GPUs are in use; to be stopped first: nv-hostengine (pid 812)"
    climbed = after(move, command=answered(move.command, CommandStatus.FAILED, message))
    assert climbed is not None
    assert rung(climbed.recovery.step) > rung(step)
    assert message in climbed.reason


@pytest.mark.parametrize("step", [RecoveryStep.RESTART_APP, RecoveryStep.RESET_GPU], ids=str)
def test_a_completed_step_is_accepted_after_passing_checks(step: RecoveryStep) -> None:
    move = order(recovery(step))
    verifying = after(move, command=answered(move.command, CommandStatus.COMPLETED, "done"))
    assert verifying is not None
    assert verifying.recovery.state is RecoveryState.VERIFYING
    deadline = verifying.recovery.deadline
    assert deadline is not None

    well = evolve(verifying.node, conditions=(), health=Health.HEALTHY)
    assert after(verifying, well, now=deadline - timedelta(seconds=1)) is None, "not yet"
    believed = after(verifying, well, now=deadline)
    assert believed is not None
    assert believed.recovery.state is RecoveryState.SUCCEEDED
    assert believed.node.phase is Phase.READY

    again = after(verifying, evolve(SICK, phase=Phase.DRAINING))
    assert again is not None
    assert rung(again.recovery.step) > rung(step), "the checks have the last word"


@pytest.mark.parametrize("step", [RecoveryStep.REBOOT, RecoveryStep.POWER_CYCLE], ids=str)
def test_a_rebooted_machine_returns_to_service_after_its_boot_check_passes(
    step: RecoveryStep,
) -> None:
    move = order(recovery(step))
    back = evolve(move.node, boot_id="boot-2")
    verifying = after(move, back)
    assert verifying is not None
    assert verifying.recovery.state is RecoveryState.VERIFYING
    assert after(verifying, evolve(back, conditions=(), health=Health.HEALTHY)) is None

    passed = evolve(back, conditions=(), health=Health.HEALTHY, vouched_boot="boot-2")
    believed = after(verifying, passed)
    assert believed is not None
    assert believed.recovery.state is RecoveryState.SUCCEEDED

    broken = evolve(back, conditions=(evolve(FAULT, boot_id="boot-2"),))
    climbed = after(verifying, broken)
    assert climbed is not None
    assert rung(climbed.recovery.step) > rung(step)


# Budgets


@pytest.mark.parametrize("step", DONE_BY_US, ids=IDS)
def test_a_step_that_exceeds_its_weekly_budget_is_skipped(step: RecoveryStep) -> None:
    def past(days: float) -> list[Recovery]:
        tried = RecoveryAttempt(
            step=step, at=NOW - timedelta(days=days), outcome="ordered", ran=True
        )
        done = evolve(recovery(step), state=RecoveryState.SUCCEEDED, history=(tried,))
        return [evolve(done, id=RecoveryId(f"before-{i}")) for i in range(RULES[step].per_week)]

    often = recovery(step, ground=replace(GROUND, others=past(days=6)))
    assert rung(often.step) > rung(step)
    assert "times in the last 7 days" in often.history[0].outcome
    assert recovery(step, ground=replace(GROUND, others=past(days=8))).step is step
    assert recovery(step, ground=replace(GROUND, others=past(days=6)[1:])).step is step


def test_the_same_fault_of_the_same_boot_continues_at_the_next_step() -> None:
    tried = order(recovery(RecoveryStep.RESET_GPU)).recovery
    ended = evolve(tried, state=RecoveryState.SUCCEEDED)

    again = recovery(RecoveryStep.RESET_GPU, ground=replace(GROUND, others=[ended]))

    assert again.id == ended.id
    assert again.step is RecoveryStep.REBOOT
    assert "tried for this fault already" in again.history[-1].outcome


def test_the_ladder_runs_in_order_and_ends_with_an_operator() -> None:
    pool = evolve(POOL, auto_replace=False)
    ground = replace(GROUND, pool=pool)
    found, taken = recovery(RecoveryStep.RESTART_APP, ground=ground), []
    while found.state is not RecoveryState.TICKET:
        move = order(found, ground=ground)
        taken.append(move.recovery.step)
        late = replace(ground, now=move.recovery.deadline or NOW, command=move.command)
        climbed = advance(move.recovery, move.node, late, lambda: CommandId("c"))
        assert climbed is not None
        found = climbed.recovery
    assert taken == list(LADDER[:4])
