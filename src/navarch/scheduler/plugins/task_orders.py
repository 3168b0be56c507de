"""Plugins that order tasks within a pod set, and pod sets within a job."""

from __future__ import annotations

from typing import ClassVar

from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.pod_set import PodSet
from navarch.scheduler.model.task import Task


class Kubeflow:
    """Starts the master or launcher of a Kubeflow job first."""

    name: ClassVar[str] = "kubeflow"
    label: ClassVar[str] = "training.kubeflow.org/job-role"
    roles: ClassVar[frozenset[str]] = frozenset({"master", "launcher"})

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_task_order_fn(
            lambda task: task.labels.get(self.label) not in self.roles,
            key=True,
            scope="static",
            any_job=True,
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


class Ray:
    """Starts the head of a Ray cluster first."""

    name: ClassVar[str] = "ray"
    label: ClassVar[str] = "ray.io/node-type"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_task_order_fn(
            lambda task: task.labels.get(self.label) != "head",
            key=True,
            scope="static",
            any_job=True,
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


class TaskOrder:
    """Starts tasks in the order their owner numbered them, the highest number first."""

    name: ClassVar[str] = "taskorder"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_task_order_fn(owner_order, key=True, scope="static", any_job=True)

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


def owner_order(task: Task) -> tuple[int, int]:
    """Return a key: numbered tasks by number, then those without, then those not understood."""
    text = task.spec.order_priority
    if text is None:
        return (1, 0)
    try:
        return (0, -int(text))
    except ValueError:
        return (2, 0)


class SubGroupOrder:
    """Serves pod sets that lack members first, then those with the fewest for their minimum."""

    name: ClassVar[str] = "subgrouporder"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_pod_set_order_fn(fullness, key=True)

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


def fullness(pod_set: PodSet) -> float:
    """Return -1 below the minimum, otherwise how many times the minimum is there."""
    active = pod_set.active_allocated
    if active < pod_set.min_available:
        return -1.0
    return active / max(1, pod_set.min_available)
