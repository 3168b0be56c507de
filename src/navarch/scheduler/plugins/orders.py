"""Plugins that order jobs within a queue, tasks within a pod set, and pod sets within a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, PodSet, Task
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK
from navarch.scheduler.plugins.node_scores import BuiltInPlugin


class Kubeflow(BuiltInPlugin):
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


class Ray(BuiltInPlugin):
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


class TaskOrder(BuiltInPlugin):
    """Starts tasks in the order of their numbers, the highest first."""

    name: ClassVar[str] = "taskorder"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_task_order_fn(owner_order, key=True, scope="static", any_job=True)


def owner_order(task: Task) -> tuple[int, int]:
    """Return a sort key: tasks by number, then tasks without one, then invalid numbers."""
    text = task.spec.order_priority
    if text is None:
        return (1, 0)
    try:
        return (0, -int(text))
    except ValueError:
        return (2, 0)


class SubGroupOrder(BuiltInPlugin):
    """Serves pod sets below their minimum first, then by tasks relative to the minimum."""

    name: ClassVar[str] = "subgrouporder"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_pod_set_order_fn(fullness, key=True)


def fullness(pod_set: PodSet) -> float:
    """Return -1 below the minimum, otherwise the tasks as a multiple of the minimum."""
    active = pod_set.active_allocated
    if active < pod_set.min_available:
        return -1.0
    return active / max(1, pod_set.min_available)


class Priority(BuiltInPlugin):
    """Orders jobs by priority, highest first."""

    name: ClassVar[str] = "priority"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_job_order_fn(lambda job: -job.priority, key=True, scope="static")


class Elastic(BuiltInPlugin):
    """Orders jobs below their minimum first, jobs above it last."""

    name: ClassVar[str] = "elastic"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_job_order_fn(elasticity, key=True, scope="job")


def elasticity(job: Job) -> int:
    """Return 0 if a pod set is below its minimum, 1 if all are at it, 2 if one is above it."""
    each = [_surplus(pod_set) for pod_set in job.pod_sets.values()]
    return 0 if 0 in each else max(each, default=1)


def _surplus(pod_set: PodSet) -> int:
    more = pod_set.count(ACTIVE_ALLOCATED_MASK) - pod_set.min_available
    return 0 if more < 0 else 2 if more else 1


@dataclass
class Ageing(BuiltInPlugin):
    """Orders jobs by priority plus points for the time they have waited.

    List it before `priority`, or instead of it. Evictions still compare the original priorities: a
    job never evicts another only because it has waited longer.
    """

    name: ClassVar[str] = "ageing"

    every: timedelta = field(default=timedelta(hours=1), metadata=argument("every"))
    points: int = field(default=1, metadata=argument("points"))
    """Points for each period of waiting."""
    points_max: int = field(default=50, metadata=argument("pointsMax"))

    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        self._session = session
        session.add_job_order_fn(lambda job: -self.priority(job), key=True, scope="job")

    def priority(self, job: Job) -> int:
        """Return the priority plus the points for waiting."""
        if self.every <= timedelta(0) or job.count(ACTIVE_ALLOCATED_MASK):
            return job.priority
        waited = max(timedelta(0), self._session.now - job.created_at)
        return job.priority + min(self.points_max, self.points * (waited // self.every))
