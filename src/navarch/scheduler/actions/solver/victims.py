"""Ever larger sets of victims, in the order in which jobs are to be taken from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.framework.gang import tasks_to_evict
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set

    from navarch.scheduler.framework.job_queue import JobQueue
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job, Task


class Units:
    """The units that may be evicted, computed as they are read.

    The order is the same for every part of the job, so it is computed once.
    """

    def __init__(self, session: Session, queue: Callable[[], JobQueue]) -> None:
        self._session = session
        self._new_queue = queue
        self._queue: JobQueue | None = None
        self._found: list[tuple[str, list[Task]]] = []

    def __iter__(self) -> Iterator[tuple[str, list[Task]]]:
        position = 0
        while position < len(self._found) or self._find():
            yield self._found[position]
            position += 1

    def _find(self) -> bool:
        if self._queue is None:
            self._queue = self._new_queue()
        while (job := self._queue.pop()) is not None:
            unit, more = tasks_to_evict(self._session, job)
            if more:
                put_back(self._queue, job, {task.uid for task in unit})
            if unit:
                self._found.append((job.name, unit))
                return True
        return False


class VictimSearch:
    """Victims gathered so far: those already known to be needed, and candidates."""

    def __init__(self, session: Session, recorded: Sequence[Task]) -> None:
        self._session = session
        self.recorded = list(recorded)
        self._recorded_uids = {task.uid for task in recorded}
        self.candidates: dict[str, list[Task]] = {}
        """Per job, the tasks that could be taken besides the recorded ones."""
        self._beside: dict[str, set[str]] = {}
        """Per node, the jobs that have a candidate there."""
        self._places: dict[str, int] = {}
        """Per job, its position in the order in which jobs became candidates."""
        self.latest: list[Task] = []
        """What the last step added."""

    def steps(self, queue: JobQueue) -> Iterator[list[Task]]:
        """Yield an empty unit, for the recorded victims alone, and then each unit that is added."""
        yield []
        while (job := queue.pop()) is not None:
            unit, more = tasks_to_evict(self._session, job)
            if self._recorded_uids.isdisjoint(task.uid for task in unit):
                if more:
                    put_back(queue, job, {task.uid for task in unit})
                if unit:
                    self.add(job.name, unit)
                    yield unit
            else:
                # The job is partly a victim already; what is left of it may be one as well.
                put_back(queue, job, self._recorded_uids)

    def steps_of(self, units: Units) -> Iterator[list[Task]]:
        """Yield what `steps` would, if every recorded victim's job is taken whole."""
        yield []
        for name, unit in units:
            if unit[0].uid not in self._recorded_uids:
                self.add(name, unit)
                yield unit

    def add(self, job: str, unit: list[Task]) -> None:
        """Make the tasks of a unit candidates."""
        if job not in self.candidates:
            self.candidates[job] = []
            self._places[job] = len(self._places)
        self.candidates[job].extend(unit)
        for task in unit:
            node = task.placement.node
            if node is not None:
                self._beside.setdefault(node, set()).add(job)
        self.latest = unit

    def record(self, tasks: Sequence[Task]) -> None:
        """Move candidates to the victims that are known to be needed."""
        for task in tasks:
            self.candidates.pop(task.job.name, None)
            if task.node is not None:
                self._beside[task.node].discard(task.job.name)

    def candidates_beside(self, node: str) -> list[Task]:
        """Return all candidates of every job that has one on `node`, the first found first."""
        names = sorted(self._beside.get(node, ()), key=self._places.__getitem__)
        return [task for name in names for task in self.candidates[name]]


def taken_whole(session: Session, recorded: Sequence[Task]) -> bool:
    """Return whether each job of the victims is evicted as a whole, in one unit.

    A job that is taken task by task appears several times in the order of units, and delays other
    jobs of its queue each time; as a recorded victim it appears once.
    """
    if not recorded:
        return True
    uids = {task.uid for task in recorded}
    jobs = {task.job.name: task.job for task in recorded}
    for job in jobs.values():
        if any(task.uid not in uids for task in job.tasks_in(ACTIVE_ALLOCATED_MASK)):
            return False
        if len(job.tasks) > 1 and tasks_to_evict(session, job)[1]:
            return False
    return True


def whole_units(session: Session, leaving: Sequence[Task], moved: Set[str]) -> list[Task]:
    """Return the tasks of `leaving` to evict first for the next part, as whole eviction units.

    `moved` holds the uids of the tasks that lost their place. A member above the minimum of its
    gang is a unit of its own, and is returned if it moved. If a member that the gang needs moved,
    all tasks of its job in `leaving` are returned: evicting that member without the others would
    leave the gang below its minimum.
    """
    there = {task.uid for task in leaving}
    jobs = {task.job.name: task.job for task in leaving if task.uid in moved}
    gangs = {name for name, job in jobs.items() if _needs_one_of(session, job, moved, there)}
    return [task for task in leaving if task.uid in moved or task.job.name in gangs]


def _needs_one_of(session: Session, job: Job, moved: Set[str], there: Set[str]) -> bool:
    """Return whether a gang of the job needs one of the tasks that moved.

    `there` holds the uids of the tasks that were active before the simulation evicted them.
    """
    if job.size == 1:
        return True
    for pod_set in job.pod_sets.values():
        active = [t for t in pod_set.tasks if t.uid in there or t.placement.counts]
        spare = len(active) - pod_set.min_available
        needed = session.sort_tasks(active)[:-spare] if spare > 0 else active
        if any(task.uid in moved for task in needed):
            return True
    return False


def put_back(queue: JobQueue, job: Job, without: set[str]) -> None:
    """Push what is left of a job back on the queue."""
    rest = [task for task in job.tasks.values() if task.uid not in without]
    if rest:
        queue.push(job.view_of(rest))
