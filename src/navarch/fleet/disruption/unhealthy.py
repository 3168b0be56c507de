"""Nodes with failed hardware."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep, rung
from navarch.fleet.disruption.governor.domain_stats import fault_of
from navarch.fleet.plan import Retire, Uncordon
from navarch.fleet.silence import heartbeat_condition, is_proven_dead
from navarch.health.conditions import explain, is_proven
from navarch.ports.remediator import Remediator, Remedy, Treatment

AUTOMATIC = "automatic: "
"""Prefix of an automatic cordon, which is also removed automatically."""


LASTS_FOR = timedelta(minutes=2)
"""How long a fault that is not fatal must last before anything is done. A check that is wrong for a
minute gives two verdicts, which is what most pools require."""


class CordonAndReplace:
    """Replaces broken nodes, or cordons them in pools without automatic replacement.

    A fatal condition counts at once; any other must have been seen as often in a row as the pool
    requires. The decision depends on the state, not on the moment of a change, so that a restart
    misses nothing.
    """

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return a replacement or a cordon for a node with proven faults."""
        grave = grave_conditions(pool, node)
        if not grave:
            return None
        remedy = Remedy.REPLACE if pool.auto_replace else Remedy.CORDON
        return Treatment(remedy=remedy, reason=f"unhealthy: {explain(grave)}")


class Ladder:
    """Starts with the mildest step that the catalogue suggests, and climbs from there."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return the first step for a node with proven faults."""
        # The boot check judges incidents of an earlier boot; until then they are void.
        grave = [
            condition
            for condition in grave_conditions(pool, node)
            if not condition.lasting or condition.boot_id == node.boot_id
        ]
        if not grave:
            return None
        worst = max(grave, key=lambda c: (rung(step_for(c)), c.fatal, c.check))
        step = step_for(worst)
        reason = f"unhealthy: {explain(grave)}"
        if step is RecoveryStep.REPLACE and pool.auto_replace:
            return Treatment(remedy=Remedy.REPLACE, reason=reason)
        return Treatment(remedy=Remedy.RECOVER, reason=reason, step=step, check=worst.check)


class AlertOnly:
    """Leaves every decision to operators; alerts are sent as usual."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Do nothing."""
        del pool, node
        return None


_FIRST_STEPS = {
    "restart_app": RecoveryStep.RESTART_APP,
    "reset_gpu": RecoveryStep.RESET_GPU,
    "dynamic": RecoveryStep.RESET_GPU,
    # A fabric is trained at boot; one GPU of it cannot be reset alone.
    "check_fabric": RecoveryStep.REBOOT,
    "reboot_node": RecoveryStep.REBOOT,
    "replace": RecoveryStep.REPLACE,
}


def step_for(condition: Condition) -> RecoveryStep:
    """Return the mildest step that may help; a reboot if the catalogue suggests none."""
    return _FIRST_STEPS.get(condition.action, RecoveryStep.REBOOT)


def grave_conditions(pool: Pool, node: Node) -> Sequence[Condition]:
    """Return the conditions of `node` that require action."""
    if node.health is not Health.UNHEALTHY:
        return ()
    return [
        c for c in node.conditions if is_proven(c, pool.unhealthy_after) and not _is_late(c, node)
    ]


def plan_treatments(
    pool: Pool, nodes: Iterable[Node], remediator: Remediator, *, now: datetime
) -> list[tuple[Node, Treatment]]:
    """Return the treatments that `remediator` wants for unhealthy nodes of `pool`.

    It only sees nodes in service that have conditions: whatever it returns, no sound node comes to
    harm. A node that is only silent is included once it has been silent for as long as the pool
    allows, and one without a fatal fault once a fault has lasted. Raises the errors of the
    remediator, and TypeError for a result that is no treatment.
    """
    wanted: list[tuple[Node, Treatment]] = []
    for node in nodes:
        if not is_in_question(node):
            continue
        due_at = treatment_due_at(pool, node)
        if due_at is not None and now < due_at:
            continue
        treatment = _checked(remediator.remediate(pool, node))
        if treatment is None:
            continue
        if treatment.remedy is Remedy.CORDON and node.cordoned is not None:
            continue
        wanted.append((node, treatment))
    return wanted


def replaced(node: Node, treatment: Treatment) -> Retire:
    """Return the removal of a node that its remediator replaces."""
    return Retire(node=node.id, reason=treatment.reason, automatic=True)


def treatment_due_at(pool: Pool, node: Node) -> datetime | None:
    """Return when `node` may be treated; None if that is no question of time.

    It is none if a fault is fatal, or if a witness proves that a silent machine is dead.
    """
    grave = [each for each in grave_conditions(pool, node) if each.check != HEARTBEAT]
    if grave:
        is_fatal = any(condition.fatal for condition in grave)
        return None if is_fatal else min(each.since for each in grave) + LASTS_FOR
    silence = heartbeat_condition(node)
    if silence is None or not is_only_silent(pool, node) or is_proven_dead(node):
        return None
    since = silence.since
    if pool.reachable_since is not None:
        # Nodes return from an outage one after another; the last ones need time as well.
        since = max(since, pool.reachable_since)
    return since + pool.silent_after


def uncertain_faults(pool: Pool, node: Node, now: datetime) -> Mapping[str, datetime | None]:
    """Return the faults of `node` that would not be enough to act on it if they were the only ones.

    Each comes with the time at which it will be enough; None if that depends on further reports.
    """
    grave = grave_conditions(pool, node)
    certain: set[str] = set()
    waiting: dict[str, datetime | None] = {}
    for condition in node.conditions:
        if condition.health is not Health.UNHEALTHY or condition.check == HEARTBEAT:
            continue
        fault = fault_of(condition)
        if condition not in grave:
            waiting.setdefault(fault, None)
        elif condition.fatal or condition.since + LASTS_FOR <= now:
            certain.add(fault)
        else:
            due, before = condition.since + LASTS_FOR, waiting.get(fault)
            waiting[fault] = due if before is None else min(due, before)
    return {fault: due for fault, due in waiting.items() if fault not in certain}


def is_only_silent(pool: Pool, node: Node) -> bool:
    """Return whether silence is the only reason to act on `node`."""
    unhealthy = [condition for condition in node.conditions if condition.health is Health.UNHEALTHY]
    evidence = grave_conditions(pool, node) or unhealthy
    return bool(evidence) and all(condition.check == HEARTBEAT for condition in evidence)


def is_in_question(node: Node) -> bool:
    """Return whether a remediator decides about `node`.

    A failed policy evaluation is no evidence against a node.
    """
    if not node.counts or node.phase is not Phase.READY or not node.conditions:
        return False
    if node.recovery is not None:
        return False
    return any(condition.health is not Health.UNKNOWN for condition in node.conditions)


_FIELDS = {"remedy": Remedy, "reason": str, "step": RecoveryStep, "check": str}


def _checked(answer: object) -> Treatment | None:
    """Return the result of a remediator, if it is valid: a remediator may be an extension."""
    if answer is None:
        return None
    if not isinstance(answer, Treatment):
        raise TypeError(
            f"{answer!r} is no treatment: return Treatment(remedy=..., reason=...) or None"
        )
    for name, kind in _FIELDS.items():
        value: object = getattr(answer, name)
        if not isinstance(value, kind):
            raise TypeError(f"{name} of the treatment is {value!r}: it must be a {kind.__name__}")
    return answer


def plan_returns(nodes: Iterable[Node]) -> list[Uncordon]:
    """Return the nodes with an automatic cordon that are healthy again."""
    return [
        Uncordon(node=node.id, reason="every check passes again")
        for node in nodes
        if node.health is Health.HEALTHY and node.counts and is_ours(node)
    ]


def is_ours(node: Node) -> bool:
    """Return whether a node has an automatic cordon, and no recovery is under way."""
    automatic = node.cordoned is not None and node.cordoned.startswith(AUTOMATIC)
    return automatic and node.recovery is None


def _is_late(condition: Condition, node: Node) -> bool:
    """Return whether an incident of an earlier boot was reported only after this boot started.

    It is no evidence about this boot: the boot check decides. Until then the node takes no work.
    """
    if not condition.boot_id or condition.boot_id == node.boot_id or node.booted_at is None:
        return False
    return condition.lasting and condition.since >= node.booted_at
