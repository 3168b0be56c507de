"""Ways out for a job that waits, each as data with the words that say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from navarch.core.remedy import Remedy, Step, StepKind

if TYPE_CHECKING:
    from navarch.core.explanation import RuleRefusal
    from navarch.core.shortfall import Shortfall
    from navarch.scheduler.model.capacity import CapacityVerdict


class Missing(NamedTuple):
    """Equal tasks that find no place."""

    tasks: int
    asks_for: str


def create_tasks(pod_set: str, count: int) -> Remedy:
    """Say that a gang has not all its members yet."""
    return Remedy(
        says=f"create {count} more tasks of {pod_set}",
        steps=(Step(kind=StepKind.ADD_TASKS, pod_set=pod_set, count=count),),
    )


def choose_another_queue(queue: str) -> Remedy:
    """Say that the job is in no queue that can have jobs."""
    return Remedy(
        says="put the job into a queue that has none below it",
        steps=(Step(kind=StepKind.CHANGE_QUEUE, queue=queue),),
    )


def past_bounds(verdict: CapacityVerdict, missing: Sequence[Missing]) -> list[Remedy]:
    """Return the ways past quotas and limits; `missing` is what the job would lack besides."""
    beyond = (verdict, *verdict.also)
    found = [_together([_raise(each) for each in beyond])]
    if all(each.requested <= each.bound for each in beyond):
        found.append(_together([_wait(each) for each in beyond]))
    limits = [each for each in beyond if each.bound_kind == "limit"]
    if len(limits) < len(beyond):
        found.append(_together([INTERRUPTIBLE, *map(_raise, limits)]))
    return [_and_places(remedy, missing) for remedy in found]


INTERRUPTIBLE: Final = Remedy(
    says="let the job be interrupted: work that may be interrupted may use more than the quota",
    steps=(Step(kind=StepKind.MAKE_INTERRUPTIBLE),),
)


def _raise(verdict: CapacityVerdict) -> Remedy:
    kind, over = verdict.bound_kind, _over(verdict)
    step = Step(
        kind=StepKind.RAISE_BOUND,
        queue=verdict.queue,
        bound=kind,
        resource=verdict.resource,
        amount=over,
    )
    words = f"raise the {kind} of queue {verdict.queue} by {_amount(verdict.resource, over)}"
    return Remedy(says=words, steps=(step,))


def _wait(verdict: CapacityVerdict) -> Remedy:
    over = _over(verdict)
    step = Step(
        kind=StepKind.WAIT_FOR_QUEUE, queue=verdict.queue, resource=verdict.resource, amount=over
    )
    amount = _amount(verdict.resource, over)
    words = f"wait until jobs in queue {verdict.queue} give back {amount}"
    return Remedy(says=words, steps=(step,))


def _over(verdict: CapacityVerdict) -> float:
    return verdict.used + verdict.requested - verdict.bound


def _amount(resource: str, over: float) -> str:
    if resource != "gpu":
        return f"{over:g} {resource}"
    return "1 GPU" if over == 1 else f"{over:g} GPUs"


def places(missing: Sequence[Missing]) -> Remedy:
    """Ask for room for tasks that find none."""
    return Remedy(
        says=", and ".join(
            f"{_places(n)} for a task that asks for {asked}" for n, asked in missing
        ),
        steps=tuple(
            Step(kind=StepKind.ADD_PLACES, count=count, asks_for=asked) for count, asked in missing
        ),
    )


def places_within(domain: str, missing: Missing) -> Remedy:
    """Ask for room in the domain that comes closest."""
    count, asked = missing
    return Remedy(
        says=f"{_places(count)} within {domain} for a task that asks for {asked}",
        steps=(Step(kind=StepKind.ADD_PLACES, count=count, asks_for=asked, within=domain),),
    )


def spread_wider(level: str) -> Remedy:
    """Ask for leave to be further apart."""
    return Remedy(
        says=f"leave to spread wider than {level}",
        steps=(Step(kind=StepKind.SPREAD_WIDER, level=level),),
    )


def lift(refusal: RuleRefusal) -> Remedy:
    """Ask one rule for leave."""
    return Remedy(
        says=_lift_words(refusal),
        steps=(_lift_step(refusal),),
    )


def lift_all(refusals: Sequence[RuleRefusal], missing: Missing) -> Remedy:
    """Ask several rules, none of which is enough alone; all may not be enough either."""
    words = "; ".join(map(_lift_words, refusals))
    asked = Remedy(
        says=words if len(refusals) == 1 else f"all of these: {words}",
        steps=tuple(map(_lift_step, refusals)),
    )
    admitted = sum(refusal.would_admit for refusal in refusals)
    return _and_places(asked, _without([missing], admitted))


def lift_and_free(refusal: RuleRefusal, nearest: Shortfall, missing: Sequence[Missing]) -> Remedy:
    """Ask a rule for leave on nodes that are full, too."""
    both = Remedy(
        says=f"{_lift_words(refusal)}, and free {nearest.lacks} on {nearest.node}",
        steps=(_lift_step(refusal), Step(kind=StepKind.FREE, lacks=nearest)),
    )
    return _and_places(both, _without(missing, 1))


def free(nearest: Shortfall, missing: Sequence[Missing]) -> Remedy:
    """Name the node that lacks the least; the others of the gang need room elsewhere."""
    one = Remedy(
        says=f"free {nearest.lacks} on {nearest.node}",
        steps=(Step(kind=StepKind.FREE, lacks=nearest),),
    )
    return _and_places(one, _without(missing, 1))


def _without(missing: Sequence[Missing], placed: int) -> list[Missing]:
    """Return what is missing once so many of the first kind have found a place."""
    first, *rest = missing
    left = first.tasks - placed
    return [*([Missing(left, first.asks_for)] if left > 0 else []), *rest]


def _and_places(remedy: Remedy, missing: Sequence[Missing]) -> Remedy:
    return _together([remedy, places(missing)]) if missing else remedy


def _together(remedies: Sequence[Remedy]) -> Remedy:
    """Return what takes the steps of all of them."""
    return Remedy(
        says=", and ".join(dict.fromkeys(remedy.says for remedy in remedies)),
        steps=tuple(step for remedy in remedies for step in remedy.steps),
    )


def _lift_words(refusal: RuleRefusal) -> str:
    where = refusal.examples[0] if refusal.nodes == 1 else f"{refusal.nodes} nodes"
    return f"lift what {refusal.rule} says of {where} ({refusal.reason})"


def _lift_step(refusal: RuleRefusal) -> Step:
    return Step(
        kind=StepKind.LIFT_RULE, rule=refusal.rule, reason=refusal.reason, nodes=refusal.names
    )


def _places(count: int) -> str:
    return "one more place" if count == 1 else f"{count} more places"
