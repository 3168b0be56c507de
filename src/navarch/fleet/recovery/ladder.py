"""The recovery ladder: one recovery and its next transition.

Orders are fenced by the boot during which the fault was seen. Steps only go up, each is ordered at
most once for one fault, and an ordered step is never ordered again, whatever its result: a second
reboot is never the answer to a reboot without a result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from navarch.core.health import Health
from navarch.core.ids import CommandId
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.core.recovery import (
    LADDER,
    Command,
    CommandStatus,
    Recovery,
    RecoveryAttempt,
    RecoveryState,
    RecoveryStep,
    recovery_id,
    rung,
)
from navarch.fleet import lifecycle
from navarch.fleet.disruption.unhealthy import AUTOMATIC, step_for
from navarch.fleet.recovery.rules import (
    RULES,
    SETTLE,
    VOUCH,
    RecoveryContext,
    by_agent,
    choose_step,
    deadline_of,
)
from navarch.health.conditions import explain, worst
from navarch.ports.remediator import Treatment

BOOTING_STEPS = (RecoveryStep.REBOOT, RecoveryStep.POWER_CYCLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The records to commit together, with their event."""

    recovery: Recovery
    node: Node
    kind: str
    reason: str
    command: Command | None = None
    """A new order for the agent."""
    ask_provider: bool = False
    """Whether the provider receives the order, once this is committed."""


def begin(node: Node, treatment: Treatment, context: RecoveryContext) -> Recovery:
    """Return the recovery that a treatment starts.

    The same fault of the same boot continues where it stopped: a step that was tried and did not
    last is not tried again.
    """
    conditions = {condition.check: condition for condition in node.conditions}
    lead = conditions.get(treatment.check) or next(iter(node.conditions))
    name = recovery_id(node.id, node.boot_id, lead.check)
    before = next((each for each in context.others if each.id == name), None)
    others = [each for each in context.others if each.id != name]
    context = replace(context, others=others)
    step, passed_over = choose_step(treatment.step, before, node, context)
    same = [c for c in node.conditions if c.health is Health.UNHEALTHY]
    now = context.now
    return Recovery(
        id=name,
        node=node.id,
        check=lead.check,
        cause=treatment.reason,
        boot_id=node.boot_id,
        gpus=tuple(dict.fromkeys(c.facts["gpu"] for c in same if c.facts.get("gpu"))),
        pids=tuple(dict.fromkeys(c.facts["pid"] for c in same if c.facts.get("pid"))),
        step=step,
        state=RecoveryState.WAITING,
        since=now,
        begun_at=before.begun_at if before else now,
        deadline=now + _patience(step, context),
        tries=before.tries if before else {},
        history=(*(before.history if before else ()), *passed_over),
        cordon="" if node.cordoned else f"{AUTOMATIC}being repaired: {treatment.reason}",
        incident=before.incident if before else "",
    )


def advance(
    recovery: Recovery, node: Node, context: RecoveryContext, new_command: Callable[[], CommandId]
) -> Transition | None:
    """Return the next transition, or None while the recovery only waits."""
    if node.gone or node.phase is Phase.TERMINATING or node.retiring is not None:
        return _end(recovery, node, RecoveryState.VOID, "the node is given back", context)
    match recovery.state:
        case RecoveryState.WAITING:
            return _from_waiting(recovery, node, context, new_command)
        case RecoveryState.ORDERED:
            return _from_ordered(recovery, node, context)
        case RecoveryState.VERIFYING:
            return _from_verifying(recovery, node, context)
        case RecoveryState.TICKET if node.health is not Health.UNHEALTHY:
            return _end(recovery, node, RecoveryState.SUCCEEDED, "it is well again", context)
        case _:
            return None


def look_again_at(recovery: Recovery) -> datetime | None:
    """Return when the next step is due, if nothing changes before."""
    return None if recovery.over else recovery.deadline


def _patience(step: RecoveryStep, context: RecoveryContext) -> timedelta:
    """Return how long to wait for work to leave before `step`."""
    needs_empty = step in RULES and RULES[step].needs_empty
    return context.pool.drain_timeout if needs_empty and context.pool else timedelta(0)


def _from_waiting(
    recovery: Recovery, node: Node, context: RecoveryContext, new_command: Callable[[], CommandId]
) -> Transition | None:
    # After a step without a proven result, only a boot check proves the node.
    proven = not recovery.tries or node.vouched_boot == node.boot_id
    if node.health is not Health.UNHEALTHY and proven:
        return _end(recovery, node, RecoveryState.VOID, "it got well by itself", context)
    if context.pool is not None and context.pool.remediation.dry_run:
        return None
    if node.boot_id != recovery.boot_id:
        return _end(recovery, node, RecoveryState.VOID, "the machine has booted since", context)
    if recovery.step is RecoveryStep.REPLACE:
        return _replace(recovery, node, context)
    if recovery.step is RecoveryStep.TICKET:
        return _write_ticket(recovery, node, context)
    if RULES[recovery.step].needs_empty:
        if node.phase is Phase.READY:
            text = f"before its {_words(recovery.step)}: {recovery.cause}"
            drained, _ = lifecycle.drain(node, text, now=context.now)
            deadline = context.now + _patience(recovery.step, context)
            waiting = evolve(recovery, deadline=deadline)
            return Transition(recovery=waiting, node=drained, kind="node.draining", reason=text)
        late = recovery.deadline is None or context.now >= recovery.deadline
        if not context.drained and not late:
            return None
    return _order(recovery, node, context, new_command)


def _order(
    recovery: Recovery, node: Node, context: RecoveryContext, new_command: Callable[[], CommandId]
) -> Transition:
    """Order the step, once. From here on it counts as done, whatever its result."""
    step, passed_over = choose_step(recovery.step, recovery, node, context)
    if step is not recovery.step:
        # The chosen step is no longer possible.
        return _climb_to(recovery, node, step, passed_over, context)
    now = context.now
    deadline = now + deadline_of(step, context)
    command = None
    if by_agent(step, node):
        kind = RULES[step].command
        assert kind is not None, step
        command = Command(
            id=new_command(),
            node=node.id,
            kind=kind,
            issued_at=now,
            expires_at=deadline,
            parameters={
                "boot_id": recovery.boot_id,
                "recovery": recovery.id,
                "gpus": ",".join(recovery.gpus),
                "pids": ",".join(recovery.pids),
                "reason": recovery.cause,
            },
        )
    ordered = evolve(
        recovery,
        state=RecoveryState.ORDERED,
        since=now,
        deadline=deadline,
        command=command.id if command else None,
        ordered_boot=node.boot_id,
        tries={**recovery.tries, step: recovery.tries.get(step, 0) + 1},
        history=(
            *recovery.history,
            RecoveryAttempt(step=step, at=now, outcome="ordered", ran=True),
        ),
    )
    whom = "its agent" if command else f"provider {node.provider}"
    return Transition(
        recovery=ordered,
        node=node,
        command=command,
        ask_provider=command is None,
        kind="recovery.ordered",
        reason=f"{_words(step)}, by {whom}: {recovery.cause}",
    )


def _from_ordered(recovery: Recovery, node: Node, context: RecoveryContext) -> Transition | None:
    step, command, now = recovery.step, context.command, context.now
    booted = node.boot_id != recovery.ordered_boot
    if step in BOOTING_STEPS:
        if booted:
            said = "the machine is back; its boot check is next"
            return _verify(recovery, node, said, until=now + VOUCH, now=now)
    elif booted:
        return _end(recovery, node, RecoveryState.VOID, "the machine has booted since", context)
    elif command is not None and command.status is CommandStatus.COMPLETED:
        cleared = _cleared(recovery, node, command)
        return _verify(recovery, cleared, command.result, until=now + SETTLE, now=now)
    if context.refused:
        return _climb(recovery, node, f"the provider refused: {context.refused}", context)
    if command is not None and command.status is CommandStatus.FAILED:
        return _climb(recovery, node, f"the agent did not do it: {command.result}", context)
    if recovery.deadline is not None and now >= recovery.deadline:
        return _climb(recovery, node, "nothing came of it in time", context)
    return None


def _verify(
    recovery: Recovery, node: Node, said: str, *, until: datetime, now: datetime
) -> Transition:
    verifying = evolve(recovery, state=RecoveryState.VERIFYING, since=now, deadline=until)
    text = f"{_words(recovery.step)}: {said}"
    return Transition(recovery=verifying, node=node, kind="recovery.verifying", reason=text)


def _cleared(recovery: Recovery, node: Node, command: Command) -> Node:
    """Return `node` without the conditions that a completed step resolved.

    The agent repeats its checks after the step, and reports it completed only if they passed. A
    condition that requires a higher step stays.
    """
    until = command.ended_at
    kept = tuple(
        condition
        for condition in node.conditions
        if not condition.lasting
        or condition.boot_id != recovery.boot_id
        or rung(step_for(condition)) > rung(recovery.step)
        or (until is not None and condition.since > until)
    )
    return evolve(node, conditions=kept, health=worst(kept))


def _from_verifying(recovery: Recovery, node: Node, context: RecoveryContext) -> Transition | None:
    well = node.health is not Health.UNHEALTHY
    late = recovery.deadline is not None and context.now >= recovery.deadline
    if recovery.step in BOOTING_STEPS:
        if well and node.vouched_boot == node.boot_id:
            text = f"{_words(recovery.step)}: the boot check passes"
            return _end(recovery, node, RecoveryState.SUCCEEDED, text, context)
        fresh = any(
            condition.fatal and condition.boot_id == node.boot_id for condition in node.conditions
        )
        if late or (fresh and not well):
            said = explain(node.conditions) or "the boot check has not passed"
            return _climb(recovery, node, f"not well after it: {said}", context)
        return None
    if node.boot_id != recovery.ordered_boot:
        return _end(recovery, node, RecoveryState.VOID, "the machine has booted since", context)
    if not well:
        return _climb(recovery, node, f"not well after it: {explain(node.conditions)}", context)
    if late:
        text = f"{_words(recovery.step)}: every check has passed since"
        return _end(recovery, node, RecoveryState.SUCCEEDED, text, context)
    return None


def _climb(recovery: Recovery, node: Node, outcome: str, context: RecoveryContext) -> Transition:
    """Continue with the next possible step."""
    tried = evolve(
        recovery,
        history=(
            *recovery.history,
            RecoveryAttempt(step=recovery.step, at=context.now, outcome=outcome),
        ),
    )
    above = LADDER[rung(recovery.step) + 1]
    step, passed_over = choose_step(above, tried, node, context)
    return _climb_to(tried, node, step, passed_over, context, because=outcome)


def _climb_to(
    recovery: Recovery,
    node: Node,
    step: RecoveryStep,
    passed_over: tuple[RecoveryAttempt, ...],
    context: RecoveryContext,
    because: str = "",
) -> Transition:
    higher = evolve(
        recovery,
        step=step,
        state=RecoveryState.WAITING,
        since=context.now,
        deadline=context.now + _patience(step, context),
        # The remaining fault belongs to the boot that is running now.
        boot_id=node.boot_id,
        command=None,
        history=(*recovery.history, *passed_over),
    )
    if step is RecoveryStep.REPLACE:
        return _replace(higher, node, context)
    if step is RecoveryStep.TICKET:
        return _write_ticket(higher, node, context)
    why = because or (passed_over[-1].outcome if passed_over else recovery.cause)
    return Transition(
        recovery=higher,
        node=node,
        kind="recovery.climbed",
        reason=f"{_words(step)} is next, since {_words(recovery.step)}: {why}",
    )


def _replace(recovery: Recovery, node: Node, context: RecoveryContext) -> Transition:
    last = recovery.history[-1].outcome if recovery.history else recovery.cause
    reason = f"{recovery.cause}; it could not be repaired ({last})"
    leaving = evolve(node, recovery=None)
    after = lifecycle.retire(leaving, Retirement(reason=reason), now=context.now)
    ended = _over(recovery, RecoveryState.REPLACED, "the node is replaced", context.now)
    return Transition(recovery=ended, node=after, kind="node.retiring", reason=reason)


def _write_ticket(recovery: Recovery, node: Node, context: RecoveryContext) -> Transition:
    tried = "; ".join(f"{_words(x.step)}: {x.outcome}" for x in recovery.history)
    ticket = evolve(
        recovery,
        step=RecoveryStep.TICKET,
        state=RecoveryState.TICKET,
        since=context.now,
        deadline=None,
    )
    reason = f"needs an operator: {recovery.cause}; nothing more can be tried ({tried})"
    return Transition(recovery=ticket, node=node, kind="recovery.ticket", reason=reason)


def _end(
    recovery: Recovery, node: Node, state: RecoveryState, outcome: str, context: RecoveryContext
) -> Transition:
    """End the recovery and reopen the node, unless another cordon applies."""
    after = evolve(node, recovery=None)
    if after.cordoned is not None and after.cordoned == recovery.cordon:
        after = evolve(after, cordoned=None)
    after = lifecycle.undrain(after, now=context.now)
    return Transition(
        recovery=_over(recovery, state, outcome, context.now),
        node=after,
        kind=f"recovery.{state}",
        reason=outcome,
    )


def _over(recovery: Recovery, state: RecoveryState, outcome: str, now: datetime) -> Recovery:
    return evolve(
        recovery,
        state=state,
        since=now,
        deadline=None,
        ended_at=now,
        history=(*recovery.history, RecoveryAttempt(step=recovery.step, at=now, outcome=outcome)),
    )


def _words(step: RecoveryStep) -> str:
    return step.replace("_", " ")
