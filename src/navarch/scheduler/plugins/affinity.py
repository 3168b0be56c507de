"""Affinity and anti-affinity between tasks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from navarch.scheduler.model.fit import Later
from navarch.scheduler.model.placement import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.cluster import AffinityTerm
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node


class Neighbours:
    """The placed tasks that affinity terms select.

    A task that is leaving does not satisfy affinity; it blocks anti-affinity until it is gone.
    """

    def __init__(self, session: Session) -> None:
        self._nodes = session.nodes
        self._jobs = session.jobs
        self._any_anti_affinity = any(
            spec.anti_affinity for job in session.jobs.others for spec in job.exemplars
        )

    @cached_property
    def _labelled(self) -> list[Task]:
        return [task for job in self._jobs.values() for task in job.tasks.values() if task.labels]

    @cached_property
    def _anti_affine(self) -> list[Task]:
        tasks = (task for job in self._jobs.values() for task in job.tasks.values())
        return [task for task in tasks if task.spec.anti_affinity]

    def concern(self, task: Task) -> bool:
        """Return whether affinity between tasks can affect where the task is placed."""
        return bool(self._any_anti_affinity or task.spec.affinity or task.spec.anti_affinity)

    def objection(self, task: Task, node: Node) -> str | None:
        """Return why affinity or anti-affinity excludes the node, None if it does not."""
        for term in task.spec.affinity:
            reason = self._missing_affinity(task, term, node)
            if reason:
                return reason
        temporary: str | None = None
        for reason in self._conflicts(task, node):
            if not isinstance(reason, Later):
                return reason
            temporary = reason
        return temporary

    def preference(self, task: Task, node: Node) -> float:
        """Return the total weight of the preferred terms that the node satisfies."""
        return float(
            sum(
                term.weight
                for term in task.spec.preferred_affinity
                for other in self._labelled
                if _matches(task, other, term.labels)
                and any(self._near(n, node, term.topology_key) for n in _staying(other))
            )
        )

    def _missing_affinity(self, task: Task, term: AffinityTerm, node: Node) -> str | None:
        if term.topology_key not in node.labels:
            return f"the node has no label {term.topology_key}"
        selected = [o for o in self._labelled if _matches(task, o, term.labels)]
        places = [name for other in selected for name in _staying(other)]
        if any(self._near(name, node, term.topology_key) for name in places):
            return None
        if not places and _has(task.labels, term.labels):
            return None  # the first task with these labels may go anywhere
        return f"no task with {dict(term.labels)} is near by {term.topology_key}"

    def _conflicts(self, task: Task, node: Node) -> Iterator[str]:
        for term in task.spec.anti_affinity:
            for other in self._labelled:
                if _matches(task, other, term.labels):
                    yield from self._clash(other, node, term.topology_key)
        for other in self._anti_affine:
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
