"""Reservation: keeps nodes for large waiting gangs and backfills them with short work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.gang import requested_quota, tasks_to_place
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.placement import Hold
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.plugins.node_scores import BuiltInPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """The nodes reserved for a gang, and when the last of them is expected to be free."""

    job: str
    nodes: frozenset[str]
    at: datetime


@dataclass
class Reservation(BuiltInPlugin):
    """Reserves nodes for the first gangs that cannot be placed.

    Other jobs may backfill these nodes if they end in time. The expected run times of the jobs on a
    node determine when it becomes free. A node with work of unknown length is not reserved, and
    work of unknown length does not backfill.
    """

    name: ClassVar[str] = "reservation"

    gpus_min: float = field(default=64.0, metadata=argument("gpusMin", at_least=0.0))
    """The smallest gang that receives a reservation, in GPUs."""
    gangs_max: int = field(default=1, metadata=argument("gangsMax", at_least=0))
    """The most gangs with a reservation at the same time."""

    _session: Session = field(init=False, repr=False)
    reserved: list[Reserved] = field(init=False, repr=False, default_factory=list)

    def on_session_open(self, session: Session) -> None:
        """Register the reservation and the check."""
        self._session = session
        session.add_on_job_unplaced_fn(self._reserve)
        session.add_predicate_fn(self._check, only_for=lambda _task: bool(self.reserved))

    def _check(self, _task: Task, job: Job, node: Node) -> str | None:
        for reserved in self.reserved:
            if node.name not in reserved.nodes or job.name == reserved.job:
                continue
            length = job.spec.expected_runtime
            if length is not None and self._session.now + length <= reserved.at:
                continue
            return (
                f"the node is reserved for job {reserved.job} "
                f"from {reserved.at.isoformat(timespec='minutes')}"
            )
        return None

    def _reserve(self, job: Job) -> None:
        if len(self.reserved) >= self.gangs_max:
            return
        tasks = tasks_to_place(self._session, job, real=True)
        if gpus(requested_quota(tasks).gpu) < self.gpus_min:
            return
        if not self._session.is_job_over_capacity(job, tasks).schedulable:
            return
        found = self._soonest(job, tasks)
        if found is not None:
            self.reserved.append(found)
            self._session.forget_rankings()

    def _soonest(self, job: Job, tasks: Sequence[Task]) -> Reserved | None:
        """Return the nodes that can hold all the tasks soonest."""
        largest = max(tasks, key=lambda task: (task.request.gpu.whole, task.uid))
        taken = {name for reserved in self.reserved for name in reserved.nodes}
        options: list[tuple[datetime, str, int]] = []
        for node in self._session.node_list:
            if node.name in taken:
                continue
            when = self._free_for(largest, job, node)
            if when is not None:
                options.append((when, node.name, _holds(largest, node)))
        options.sort()
        chosen: list[str] = []
        room = 0
        for when, name, holds in options:
            chosen.append(name)
            room += holds
            if room >= len(tasks):
                return Reserved(job=job.name, nodes=frozenset(chosen), at=when)
        return None

    def _free_for(self, task: Task, job: Job, node: Node) -> datetime | None:
        """Return when the node is expected to be empty, None if the task could not run there."""
        statics = [h for h in self._session.hooks("predicate") if h.scope == "static"]
        if _holds(task, node) == 0 or any(hook.fn(task, job, node) for hook in statics):
            return None
        latest = self._session.now
        for other, _ in node.tasks.values():
            if all(booking.hold is Hold.LEAVING for booking in other.placement.bookings):
                continue
            length = other.job.spec.expected_runtime
            if length is None:
                return None
            latest = max(latest, (other.job.last_start or self._session.now) + length)
        return latest


def _holds(task: Task, node: Node) -> int:
    """Return how many such tasks the empty node can hold."""
    whole, request = node.allocatable, task.request
    bounds = (
        (whole.gpu, request.gpu.whole),
        (whole.cpu, request.cpu_milli),
        (whole.memory, request.memory_bytes),
        (whole.pods, request.pods),
    )
    return max(0, min((have // need for have, need in bounds if need), default=0))
