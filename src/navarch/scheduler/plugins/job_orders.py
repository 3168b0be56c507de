"""Plugins that order jobs within a queue."""

from __future__ import annotations

from typing import ClassVar

from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.pod_set import PodSet
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK


class Priority:
    """Puts jobs of higher priority first."""

    name: ClassVar[str] = "priority"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_job_order_fn(lambda job: -job.priority, key=True, scope="static")

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


class Elastic:
    """Puts jobs that lack members first, those with members to spare last."""

    name: ClassVar[str] = "elastic"

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        session.add_job_order_fn(elasticity, key=True, scope="job")

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""


def elasticity(job: Job) -> int:
    """Return 0 if a pod set is below its minimum, 1 if all are just there, 2 if one is above."""
    if not job.origin.version and len(job.pod_sets) == 1:
        (pod_set,) = job.pod_sets.values()
        return _surplus(pod_set)  # quicker than to remember it
    return job.remember("elasticity", lambda: _elasticity(job))


def _elasticity(job: Job) -> int:
    each = [_surplus(pod_set) for pod_set in job.pod_sets.values()]
    return 0 if 0 in each else max(each, default=1)


def _surplus(pod_set: PodSet) -> int:
    more = pod_set.count(ACTIVE_ALLOCATED_MASK) - pod_set.min_available
    return 0 if more < 0 else 2 if more else 1
