"""Comparing what fast paths find with what asking about every node would have found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.core.errors import InvariantError
from navarch.scheduler.model.fit import Fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.framework.decision import Decision
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


def best_node(session: Session, task: Task, job: Job, nodes: Sequence[Node]) -> Node | None:
    """Return the node that a task without shared GPUs would be put on, asking about each."""
    if session.pre_predicate(task, job) is not None:
        return None
    for _, node in session.score_nodes(task, nodes):
        if session.fit(task, job, node) is not Fit.NO:
            return node
    return None


def check_place(
    session: Session, task: Task, job: Job, nodes: Sequence[Node], found: Node | None
) -> None:
    """Refuse a place that is not the one asking about each node finds.

    Raises:
        InvariantError: A plugin says other things together than one by one, or depends on more
            than the scope it declares; or a fast path is wrong.
    """
    expected = best_node(session, task, job, nodes)
    if expected is not found:
        raise InvariantError(
            f"fast path: task {task.uid} would go to {_name(found)}, but asking about each node "
            f"gives {_name(expected)}; a plugin's vector form or scope may be wrong: "
            f"{_scopes(session)}"
        )


def check_decisions(quick: Sequence[Decision], slow: Sequence[Decision], job: Job) -> None:
    """Refuse a search for victims that decides otherwise than part by part.

    Raises:
        InvariantError: They differ.
    """
    if list(quick) != list(slow):
        raise InvariantError(
            f"fast path: victims for job {job.name} found at once differ from those found part by "
            f"part: {len(quick)} and {len(slow)} decisions"
        )


def check_same(what: str, quick: object, slow: object) -> None:
    """Refuse something that was kept or added up and is not what looking again finds.

    Raises:
        InvariantError: They differ; a plugin depends on more than the scope it declares, or a
            fast path is wrong.
    """
    if quick != slow:
        raise InvariantError(f"fast path: {what} {quick}, but looking again gives {slow}")


def _name(node: Node | None) -> str:
    return "no node" if node is None else node.name


def _scopes(session: Session) -> str:
    hooks = [*session.hooks("predicate"), *session.hooks("node_order")]
    return ", ".join(f"{hook.owner} {hook.scope}" for hook in hooks)
