"""Trial placements: how many tasks of a job fit now, and which rules reject which nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from navarch.core.event import Attempt, RuleRefusal
from navarch.scheduler.model.fit import (
    Fit,
    describe_task,
    how_much,
    is_large_enough,
    room,
    shortfall,
)
from navarch.scheduler.remedies import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.core.event import Shortfall
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node

EXAMPLES: Final = 5
"""How many nodes, or jobs, a text names."""
CLOSEST: Final = 3
"""How many of the nodes with the smallest shortfall are reported."""
RESOURCES: Final = "resources"
NOT_FREE: Final = (RESOURCES, "not enough is free")
TOO_SMALL: Final = (RESOURCES, "too small even when empty")


def try_placing(session: Session, job: Job, tasks: Sequence[Task]) -> tuple[Attempt, list[Missing]]:
    """Place tasks one by one, undo that, and return the result with the tasks that did not fit.

    The attempt describes the first task without a place. Equal tasks are counted together: after
    one of them fails, the others are not tried.
    """
    failed: Attempt | None = None
    placed: list[str] = []
    missing: Counter[int] = Counter()
    requests: dict[int, str] = {}
    with session.attempt("why") as statement:
        placing = session.placement(statement, job, real=True)
        for task in tasks:
            kind = session.kinds.number(task.spec)
            if not missing[kind] and placing.place_one(task):
                placed.append(str(task.node))
                continue
            missing[kind] += 1
            requests.setdefault(kind, describe_task(task))
            failed = failed or _failed_attempt(session, job, task, placed)
    attempt = failed or Attempt(placed=0, of=0, on=())
    whole = replace(attempt, placed=len(placed), of=len(tasks), on=tuple(placed))
    return whole, [Missing(missing[kind], request) for kind, request in requests.items()]


def _failed_attempt(session: Session, job: Job, task: Task, placed: list[str]) -> Attempt:
    """Return the rules that reject nodes for the task, and the nodes with the least shortfall."""
    rejected: dict[tuple[str, str], list[Node]] = {}
    closest: list[Shortfall] = []
    everywhere = session.pre_predicate(task, job)
    if everywhere is not None:
        rejected[everywhere.plugin, everywhere.reason] = list(session.node_list)
    else:
        for node in session.node_list:
            rule = _rejecting_rule(session, job, task, node)
            if rule is None:
                continue
            rejected.setdefault(rule, []).append(node)
            if rule == NOT_FREE and node.name not in placed:
                closest.append(shortfall(task.request, node))
    by_size = sorted(rejected.items(), key=lambda item: (-len(item[1]), item[0]))
    return Attempt(
        placed=0,
        of=0,
        on=(),
        failed_task=task.uid,
        asks_for=describe_task(task),
        refusals=tuple(_refusal(rule, reason, nodes, task) for (rule, reason), nodes in by_size),
        closest=tuple(sorted(closest, key=how_much)[:CLOSEST]),
    )


def _rejecting_rule(session: Session, job: Job, task: Task, node: Node) -> tuple[str, str] | None:
    """Return the rule and reason that exclude the node; permanent reasons come first."""
    objection = session.predicate(task, job, node)
    if node.fits_eventually(task.request):
        if objection is None or session.fit(task, job, node) is not Fit.NO:
            return None
        return (objection.plugin, str(objection.reason))
    if objection is not None and not objection.passes and "pod slots" not in objection.reason:
        return (objection.plugin, str(objection.reason))
    return NOT_FREE if is_large_enough(node, task.request) else TOO_SMALL


def _refusal(rule: str, reason: str, nodes: Sequence[Node], task: Task) -> RuleRefusal:
    names = tuple(node.name for node in nodes)
    admitted = 0 if rule == RESOURCES else sum(room(node, task.request) for node in nodes)
    return RuleRefusal(
        rule=rule,
        reason=reason,
        nodes=len(names),
        examples=names[:EXAMPLES],
        names=names,
        would_admit=admitted,
    )
