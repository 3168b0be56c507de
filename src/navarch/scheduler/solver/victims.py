"""Ever larger sets of victims, in the order in which jobs are to be taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.gang import tasks_to_evict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.job_queue import JobQueue
    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.task import Task


class VictimSearch:
    """Victims gathered so far: those already known to be needed, and candidates."""

    def __init__(self, session: Session, recorded: Sequence[Task], queue: JobQueue) -> None:
        self._session = session
        self._queue = queue
        self.recorded = list(recorded)
        self._recorded_uids = {task.uid for task in recorded}
        self.candidates: dict[str, list[Task]] = {}
        """Per job, the tasks that could be taken besides the recorded ones."""
        self.latest: list[Task] = []
        """What the last step added."""

    def steps(self) -> Iterator[list[Task]]:
        """Yield nobody, for the recorded victims alone, and then each unit that is added."""
        yield []
        while (job := self._queue.pop()) is not None:
            unit, more = tasks_to_evict(self._session, job)
            if self._recorded_uids.isdisjoint(task.uid for task in unit):
                if unit:
                    self._add(job, unit, more=more)
                    yield unit
            else:
                # The job is partly a victim already; what is left of it may be one as well.
                self._put_back(job, self._recorded_uids)

    def candidates_beside(self, node: str) -> list[Task]:
        """Return all candidates of every job that has one on `node`."""
        return [
            task
            for tasks in self.candidates.values()
            if any(task.node == node for task in tasks)
            for task in tasks
        ]

    def _add(self, job: Job, unit: list[Task], *, more: bool) -> None:
        self.candidates.setdefault(job.name, []).extend(unit)
        self.latest = unit
        if more:
            self._put_back(job, {task.uid for task in unit})

    def _put_back(self, job: Job, without: set[str]) -> None:
        rest = [task for task in job.tasks.values() if task.uid not in without]
        if rest:
            self._queue.push(job.view_of(rest))
