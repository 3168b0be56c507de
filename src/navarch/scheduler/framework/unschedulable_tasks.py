"""The reasons why tasks found no place, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from navarch.scheduler.model.status import TaskStatus

if TYPE_CHECKING:
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.fit import UnschedulableReason


class UnschedulableTasks(Mapping[str, Mapping[str, "tuple[UnschedulableReason, ...]"]]):
    """The reasons by job and task; those that were not recorded are computed on access.

    These are the reasons at the end of the cycle: checking thousands of nodes for every waiting
    gang would cost too much.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, dict[str, tuple[UnschedulableReason, ...]]] = {}
        for job in session.jobs.values() if session.unschedulable_tasks else ():
            for uid, task in job.tasks.items():
                if uid in session.unschedulable_tasks and task.status is TaskStatus.PENDING:
                    reasons = tuple(session.unschedulable_tasks[uid])
                    self._known.setdefault(job.name, {})[uid] = reasons
        self._open = {
            name
            for name, (tasks, job) in session.unplaced.items()
            if (not job.origin.version or tasks[0].status is TaskStatus.PENDING)
            and name not in self._known
        }

    def __getitem__(self, name: str) -> Mapping[str, tuple[UnschedulableReason, ...]]:
        if name in self._open:
            self._known[name] = self._find(name)
            self._open.remove(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._known, *self._open}))

    def __len__(self) -> int:
        return len(self._known) + len(self._open)

    def _find(self, name: str) -> dict[str, tuple[UnschedulableReason, ...]]:
        session = self._session
        tasks, job = session.unplaced[name]
        task = tasks[0]
        for node in session.node_list:
            session.fit(task, job, node, record=True)
        return {task.uid: tuple(session.unschedulable_tasks.pop(task.uid, ()))}
