"""Remedies for pending jobs, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from navarch.core.event import Remedy, Step, StepKind

if TYPE_CHECKING:
    from navarch.core.event import RuleRefusal, Shortfall
    from navarch.scheduler.model.quantity import CapacityVerdict


class Missing(NamedTuple):
    """Equal tasks that do not fit."""

    tasks: int
    asks_for: str


def create_tasks(pod_set: str, count: int) -> Remedy:
    """Return the remedy for a gang with too few tasks."""
    return Remedy(
        says=f"create {count} more tasks in pod set {pod_set}",
        steps=(Step(kind=StepKind.ADD_TASKS, pod_set=pod_set, count=count),),
    )


def choose_another_queue(queue: str) -> Remedy:
    """Return the remedy for a job in a queue that cannot have jobs."""
    return Remedy(
        says="move the job to a queue without child queues",
        steps=(Step(kind=StepKind.CHANGE_QUEUE, queue=queue),),
    )


def past_bounds(verdict: CapacityVerdict, missing: Sequence[Missing]) -> list[Remedy]:
    """Return the remedies for quotas and limits; `missing` are tasks that would still not fit."""
    beyond = (verdict, *verdict.also)
    found = [_together([_raise(each) for each in beyond])]
    if all(each.requested <= each.bound for each in beyond):
        found.append(_together([_wait(each) for each in beyond]))
    limits = [each for each in beyond if each.bound_kind == "limit"]
    if len(limits) < len(beyond):
        found.append(_together([PREEMPTIBLE, *map(_raise, limits)]))
    return [_and_places(remedy, missing) for remedy in found]


PREEMPTIBLE: Final = Remedy(
    says="make the job preemptible: preemptible jobs may exceed the quota",
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
    words = f"wait until jobs in queue {verdict.queue} release {amount}"
    return Remedy(says=words, steps=(step,))


def _over(verdict: CapacityVerdict) -> float:
    return verdict.used + verdict.requested - verdict.bound


def _amount(resource: str, over: float) -> str:
    if resource != "gpu":
        return f"{over:g} {resource}"
    return "1 GPU" if over == 1 else f"{over:g} GPUs"


def places(missing: Sequence[Missing]) -> Remedy:
    """Return the remedy of more room for tasks that do not fit."""
    return Remedy(
        says=", and ".join(
            f"{_places(count)} for a task that needs {request}" for count, request in missing
        ),
        steps=tuple(
            Step(kind=StepKind.ADD_PLACES, count=count, asks_for=request)
            for count, request in missing
        ),
    )


def places_within(domain: str, missing: Missing) -> Remedy:
    """Return the remedy of more room in one domain."""
    count, request = missing
    return Remedy(
        says=f"{_places(count)} within {domain} for a task that needs {request}",
        steps=(Step(kind=StepKind.ADD_PLACES, count=count, asks_for=request, within=domain),),
    )


def spread_wider(level: str) -> Remedy:
    """Return the remedy of a wider topology constraint."""
    return Remedy(
        says=f"allow the job to spread wider than {level}",
        steps=(Step(kind=StepKind.SPREAD_WIDER, level=level),),
    )


def lift(refusal: RuleRefusal) -> Remedy:
    """Return the remedy of lifting one rule."""
    return Remedy(
        says=_lift_words(refusal),
        steps=(_lift_step(refusal),),
    )


def lift_all(refusals: Sequence[RuleRefusal], missing: Missing) -> Remedy:
    """Return the remedy of lifting several rules, and more room if that is not enough."""
    words = "; ".join(map(_lift_words, refusals))
    lifted = Remedy(
        says=words if len(refusals) == 1 else f"all of these: {words}",
        steps=tuple(map(_lift_step, refusals)),
    )
    admitted = sum(refusal.would_admit for refusal in refusals)
    return _and_places(lifted, _without([missing], admitted))


def lift_and_free(refusal: RuleRefusal, nearest: Shortfall, missing: Sequence[Missing]) -> Remedy:
    """Return the remedy of lifting a rule for a node and freeing room on it."""
    both = Remedy(
        says=f"{_lift_words(refusal)}, and free {nearest.lacks} on {nearest.node}",
        steps=(_lift_step(refusal), Step(kind=StepKind.FREE, lacks=nearest)),
    )
    return _and_places(both, _without(missing, 1))


def free(nearest: Shortfall, missing: Sequence[Missing]) -> Remedy:
    """Return the remedy of freeing room on the nearest node, and more room for other tasks."""
    one = Remedy(
        says=f"free {nearest.lacks} on {nearest.node}",
        steps=(Step(kind=StepKind.FREE, lacks=nearest),),
    )
    return _and_places(one, _without(missing, 1))


def _without(missing: Sequence[Missing], placed: int) -> list[Missing]:
    """Return what is missing after `placed` tasks of the first kind fit."""
    first, *rest = missing
    left = first.tasks - placed
    return [*([Missing(left, first.asks_for)] if left > 0 else []), *rest]


def _and_places(remedy: Remedy, missing: Sequence[Missing]) -> Remedy:
    return _together([remedy, places(missing)]) if missing else remedy


def _together(remedies: Sequence[Remedy]) -> Remedy:
    """Return one remedy with the steps of all."""
    return Remedy(
        says=", and ".join(dict.fromkeys(remedy.says for remedy in remedies)),
        steps=tuple(step for remedy in remedies for step in remedy.steps),
    )


def _lift_words(refusal: RuleRefusal) -> str:
    where = refusal.examples[0] if refusal.nodes == 1 else f"{refusal.nodes} nodes"
    return f"lift the rule of {refusal.rule} for {where} ({refusal.reason})"


def _lift_step(refusal: RuleRefusal) -> Step:
    return Step(
        kind=StepKind.LIFT_RULE, rule=refusal.rule, reason=refusal.reason, nodes=refusal.names
    )


def _places(count: int) -> str:
    return "one more place" if count == 1 else f"{count} more places"
