"""Let jobs rise that have waited for long."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK


@dataclass
class Ageing:
    """Puts jobs of higher priority first, where waiting adds to priority.

    List it before `priority`, or instead of it. What runs, and what is stopped for others, goes by
    the priority a job was given: nobody loses a place to somebody who has merely waited.
    """

    name: ClassVar[str] = "ageing"

    every: timedelta = field(default=timedelta(hours=1), metadata=argument("every"))
    points: int = field(default=1, metadata=argument("points"))
    """What a job gains each time."""
    points_max: int = field(default=50, metadata=argument("pointsMax"))

    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the order."""
        self._session = session
        session.add_job_order_fn(lambda job: -self.priority(job), key=True, scope="job")

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    def priority(self, job: Job) -> int:
        """Return the priority with what waiting adds to it."""
        if self.every <= timedelta(0) or job.count(ACTIVE_ALLOCATED_MASK):
            return job.priority
        waited = max(timedelta(0), self._session.now - job.created_at)
        return job.priority + min(self.points_max, self.points * (waited // self.every))
