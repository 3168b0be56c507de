"""Tasks that want to be near, or apart from, others."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from navarch.scheduler.model.fit import Later
from navarch.scheduler.model.placement import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.cluster import AffinityTerm
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


class Neighbours:
    """Answers who is where, for affinity between tasks.

    Somebody who is leaving is no company; for those who want to keep apart, they are an obstacle
    that will pass.
    """

    def __init__(self, session: Session) -> None:
        self._nodes = session.nodes
        self._jobs = session.jobs
        self._any_shy = any(
            spec.anti_affinity for job in session.jobs.values() for spec in job.exemplars
        )

    @cached_property
    def _labelled(self) -> list[Task]:
        return [task for job in self._jobs.values() for task in job.tasks.values() if task.labels]

    @cached_property
    def _shy(self) -> list[Task]:
        tasks = (task for job in self._jobs.values() for task in job.tasks.values())
        return [task for task in tasks if task.spec.anti_affinity]

    def concern(self, task: Task) -> bool:
        """Say whether it can matter to the task, or to others, who is where."""
        return bool(self._any_shy or task.spec.affinity or task.spec.anti_affinity)

    def objection(self, task: Task, node: Node) -> str | None:
        """Return why the task cannot be on the node because of who is or is not there."""
        for term in task.spec.affinity:
            reason = self._lonely(task, term, node)
            if reason:
                return reason
        passing: str | None = None
        for reason in self._conflicts(task, node):
            if not isinstance(reason, Later):
                return reason
            passing = reason
        return passing

    def preference(self, task: Task, node: Node) -> float:
        """Return the summed weight of preferred company on the node; negative to keep away."""
        return float(
            sum(
                term.weight
                for term in task.spec.preferred_affinity
                for other in self._labelled
                if _matches(task, other, term.labels)
                and any(self._near(n, node, term.topology_key) for n in _staying(other))
            )
        )

    def _lonely(self, task: Task, term: AffinityTerm, node: Node) -> str | None:
        if term.topology_key not in node.labels:
            return f"the node has no label {term.topology_key}"
        company = [o for o in self._labelled if _matches(task, o, term.labels)]
        places = [name for other in company for name in _staying(other)]
        if any(self._near(name, node, term.topology_key) for name in places):
            return None
        if not places and _has(task.labels, term.labels):
            return None  # the first of its kind has to go somewhere
        return f"no task with {dict(term.labels)} is near by {term.topology_key}"

    def _conflicts(self, task: Task, node: Node) -> Iterator[str]:
        for term in task.spec.anti_affinity:
            for other in self._labelled:
                if _matches(task, other, term.labels):
                    yield from self._clash(other, node, term.topology_key)
        for other in self._shy:
            for term in other.spec.anti_affinity:
                if _matches(other, task, term.labels):
                    yield from self._clash(other, node, term.topology_key)

    def _clash(self, other: Task, node: Node, key: str) -> Iterator[str]:
        for booking in other.placement.bookings:
            if self._near(booking.node, node, key):
                text = f"task {other.uid} must not be near by {key}"
                yield Later(text) if booking.hold is Hold.LEAVING else text

    def _near(self, name: str, node: Node, key: str) -> bool:
        value = node.labels.get(key)
        return value is not None and self._nodes[name].labels.get(key) == value


def _staying(task: Task) -> list[str]:
    return [b.node for b in task.placement.bookings if b.hold is not Hold.LEAVING]


def _matches(task: Task, other: Task, labels: Mapping[str, str]) -> bool:
    return other is not task and other.namespace == task.namespace and _has(other.labels, labels)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
