"""The rules of each recovery step: requirements, deadline and weekly limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import (
    LADDER,
    Command,
    CommandKind,
    Recovery,
    RecoveryAttempt,
    RecoveryStep,
    rung,
)
from navarch.fleet.silence import heartbeat_condition

WEEK = timedelta(days=7)

SETTLE = timedelta(minutes=2)
"""How long the checks must pass after a reset before it counts: every check that reads the GPUs
runs at least once in that time."""

VOUCH = timedelta(minutes=10)
"""How long the boot check of a rebooted machine may take to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """The rules of one step."""

    deadline: timedelta
    """How long it may take from the order to the effect."""
    per_week: int
    """How often one node may have it in seven days; more often, it does not help."""
    needs_empty: bool
    """Whether work on the node must leave first."""
    command: CommandKind | None = None
    """The command for the agent."""


RULES: dict[RecoveryStep, StepRule] = {
    RecoveryStep.RESTART_APP: StepRule(
        deadline=timedelta(minutes=2),
        per_week=5,
        needs_empty=False,
        command=CommandKind.RESTART_APP,
    ),
    RecoveryStep.RESET_GPU: StepRule(
        deadline=timedelta(minutes=5),
        per_week=3,
        needs_empty=True,
        command=CommandKind.RESET_GPU,
    ),
    RecoveryStep.REBOOT: StepRule(
        deadline=timedelta(minutes=15),
        per_week=3,
        needs_empty=True,
        command=CommandKind.REBOOT,
    ),
    RecoveryStep.POWER_CYCLE: StepRule(
        deadline=timedelta(minutes=15), per_week=2, needs_empty=True
    ),
}
"""Replacing and writing a ticket end a recovery and need no rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryContext:
    """The facts around one recovery."""

    pool: Pool | None
    now: datetime
    command: Command | None = None
    """The order of the present step, if the agent received one."""
    drained: bool = False
    refused: str = ""
    """The provider's error, if it refused the order."""
    can_reboot: bool = False
    """Whether the provider can reboot the machine."""
    can_power_cycle: bool = False
    others: Sequence[Recovery] = ()
    """Other recoveries of the same node, for the weekly limits."""


def deadline_of(step: RecoveryStep, context: RecoveryContext) -> timedelta:
    """Return how long `step` may take."""
    if step in (RecoveryStep.REBOOT, RecoveryStep.POWER_CYCLE) and context.pool is not None:
        return context.pool.remediation.reboot_deadline
    return RULES[step].deadline


def by_agent(step: RecoveryStep, node: Node) -> bool:
    """Return whether the agent carries out `step`, rather than the provider."""
    return RULES[step].command is not None and heartbeat_condition(node) is None


def choose_step(
    first: RecoveryStep, recovery: Recovery | None, node: Node, context: RecoveryContext
) -> tuple[RecoveryStep, tuple[RecoveryAttempt, ...]]:
    """Return the first possible step from `first` upwards, and why those below it are not."""
    passed_over: list[RecoveryAttempt] = []
    for step in LADDER[rung(first) :]:
        obstacle = _obstacle(step, recovery, node, context)
        if obstacle is None:
            return step, tuple(passed_over)
        passed_over.append(
            RecoveryAttempt(step=step, at=context.now, outcome=f"passed over: {obstacle}")
        )
    raise AssertionError("a ticket can always be written")


def _obstacle(
    step: RecoveryStep, recovery: Recovery | None, node: Node, context: RecoveryContext
) -> str | None:
    """Return the obstacle to `step`, if there is one."""
    if step is RecoveryStep.TICKET:
        return None
    pool = context.pool
    if pool is not None and pool.remediation.steps and step not in pool.remediation.steps:
        return "the pool does not allow it"
    if step is RecoveryStep.REPLACE:
        if pool is None or node.launch is None:
            return "the machine was not bought here"
        return None if pool.auto_replace and not pool.deleted else "the pool replaces nothing"
    if recovery is not None and recovery.tries.get(step, 0) > 0:
        return "it was tried for this fault already"
    known = [*context.others] if recovery is None else [*context.others, recovery]
    done = sum(
        attempt.ran and attempt.step is step and attempt.at > context.now - WEEK
        for each in known
        for attempt in each.history
    )
    if done >= RULES[step].per_week:
        return f"it was done {done} times in the last 7 days"
    if step is RecoveryStep.POWER_CYCLE:
        able = context.can_power_cycle and node.instance is not None
        return None if able else "no provider can power-cycle it"
    if heartbeat_condition(node) is None:
        return None
    if step is RecoveryStep.REBOOT and context.can_reboot and node.instance is not None:
        return None
    return "its agent does not answer"
