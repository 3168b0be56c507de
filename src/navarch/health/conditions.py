"""Conditions of a node: check results evaluated into what is currently wrong with it."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from navarch.catalogue.machines import all_machines
from navarch.core.health import BOOT, POLICY, SEVERITY, CheckResult, Condition, Health
from navarch.core.instance import MachineKind
from navarch.core.limits import CONDITIONS_PER_NODE
from navarch.core.records import evolve

TIMES_MAX = 10
"""The highest count of consecutive reports. A condition that persists longer no longer changes;
one that is fatal changes only with its reason."""

EXPLAINED_MAX = 10
"""The most conditions in one line. The node's record has all of them."""

_WRONG = (Health.DEGRADED, Health.UNHEALTHY)


def evaluate(
    conditions: Sequence[Condition], results: Iterable[CheckResult], *, now: datetime, boot_id: str
) -> tuple[Condition, ...]:
    """Return the conditions after `results`, given the conditions before.

    A check that passes clears its condition. A lasting condition, which records an event, stays
    until an operator overrides it or the boot check passes on a later boot. A check that could not
    run (UNKNOWN) leaves conditions as they are; a policy that could not be applied is a condition
    itself.
    """
    wrong = {condition.check: condition for condition in conditions}
    for result in results:
        check, health = result.check, result.health
        if health in _WRONG or (health is Health.UNKNOWN and check.startswith(POLICY)):
            wrong[check] = _condition(wrong.get(check), result, now, boot_id)
            continue
        if not wrong or health is not Health.HEALTHY:
            continue
        if check in wrong and (not wrong[check].lasting or check.startswith(POLICY)):
            del wrong[check]
        if check == BOOT:
            wrong = {
                check: condition
                for check, condition in wrong.items()
                if not condition.lasting or condition.boot_id == boot_id
            }
    if len(wrong) <= CONDITIONS_PER_NODE.most:
        return tuple(wrong.values())
    worst_first = sorted(wrong.values(), key=_rank)
    return tuple(worst_first[: CONDITIONS_PER_NODE.most])


def worst(conditions: Iterable[Condition]) -> Health:
    """Return the worst health among `conditions`; healthy if there are none."""
    healths = (condition.health for condition in conditions)
    return max(healths, key=SEVERITY.__getitem__, default=Health.HEALTHY)


def is_proven(condition: Condition, unhealthy_after: int) -> bool:
    """Return whether a condition is certain: fatal, or reported often enough."""
    if condition.health is not Health.UNHEALTHY:
        return False
    return condition.fatal or condition.times >= unhealthy_after


def explain(conditions: Sequence[Condition]) -> str:
    """Return the conditions as one line, worst first."""
    words: list[str] = []
    for condition in sorted(conditions, key=_rank)[:EXPLAINED_MAX]:
        kind = condition.check.partition("/")[0]
        reason = condition.reason or str(condition.health)
        if not reason.lower().startswith(kind.lower()):
            reason = f"{kind}: {reason}"
        if condition.times > 1:
            reason += f" ({condition.times} times in a row)"
        words.append(reason)
    if len(conditions) > EXPLAINED_MAX:
        words.append(f"and {len(conditions) - EXPLAINED_MAX} more")
    return "; ".join(words)


def _rank(condition: Condition) -> tuple[int, bool, datetime, str]:
    """Return the key that sorts conditions: the worst first, of those the oldest."""
    return -SEVERITY[condition.health], not condition.fatal, condition.since, condition.check


def _condition(
    before: Condition | None, result: CheckResult, now: datetime, boot_id: str
) -> Condition:
    after = Condition(
        check=result.check,
        health=result.health,
        reason=result.reason,
        since=now,
        fatal=result.fatal,
        lasting=result.lasting,
        boot_id=boot_id,
        action=result.action,
        facts=result.facts,
    )
    if before is None:
        return after
    is_milder = SEVERITY[result.health] < SEVERITY[before.health]
    if before.lasting and before.boot_id == boot_id and is_milder:
        return before
    if before.health is not result.health or before.fatal is not result.fatal:
        return after
    is_repeated = before.fatal and before.reason == after.reason
    if is_repeated or before.times >= TIMES_MAX:
        # The condition is unchanged except that it now applies to the current boot.
        return evolve(before, boot_id=boot_id)
    return evolve(after, since=before.since, times=before.times + 1)


def find_kind(provider: str, instance_type: str) -> MachineKind | None:
    """Return the catalogue's entry for a machine type, if there is exactly one.

    An empty provider, or one that the catalogue does not list, is ignored: then the type must be
    unique among all providers.
    """
    machines = all_machines()
    is_known = any(machine.provider == provider for machine in machines)
    found = [
        machine
        for machine in machines
        if machine.instance_type == instance_type and (machine.provider == provider or not is_known)
    ]
    if len(found) != 1:
        return None
    return MachineKind(
        provider=found[0].provider,
        instance_type=instance_type,
        gpu_model=found[0].gpu_model,
        gpus=found[0].gpus,
        gpu_memory_gib=found[0].gpu_memory_gib,
    )
