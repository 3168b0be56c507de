"""Jobs and queues: gangs of equal tasks that hold GPUs, and the shares of queues in the GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.limits import TASKS_PER_JOB_MAX
from navarch.core.records import evolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue. Only queues without child queues contain jobs."""

    name: str
    parent: str | None = None
    priority: int = 100
    quota: float = 0.0
    """The number of GPUs it is guaranteed."""
    limit: float | None = None
    """The largest number of GPUs it may have."""
    weight: float = 1.0
    """Its weight in the division of GPUs beyond all quotas."""


DEFAULT_QUEUE = "default"

DEFAULT_PRIORITY = 50


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    """It has no GPUs, or lost them."""
    PLACED = "placed"
    """All of its tasks have GPUs."""
    FINISHED = "finished"
    CANCELLED = "cancelled"


NEXT_STATES: Mapping[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset({JobState.PLACED, JobState.CANCELLED}),
    # Back to waiting: a node is lost, or another job evicts it.
    JobState.PLACED: frozenset({JobState.WAITING, JobState.FINISHED, JobState.CANCELLED}),
    JobState.FINISHED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


DEATHS_KEPT = 24
"""How many deaths a job remembers; older ones are in the journal."""


class JobDeath(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job's program on one node before its work was done."""

    at: datetime
    node: NodeId
    beside: int = 0
    """The number of other nodes on which the program ran without failing first."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that no other job gets until the job is placed again."""

    nodes: tuple[NodeId, ...]
    until: datetime


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A submitted job: its request and its state."""

    name: JobName
    submitted_at: datetime
    since: datetime
    """When it entered its state."""
    state: JobState = JobState.WAITING
    queue: str = DEFAULT_QUEUE
    tasks: int = 1
    """The number of tasks, which start all together or not at all."""
    gpus: int = 1
    """The GPUs of each task, all on one node."""
    pool: PoolName | None = None
    """The only pool it may run on; None: any."""
    gpu_type: str = ""
    """The only kind of GPU it may run on; empty: any."""
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    """Whether it may be evicted for other jobs."""
    runtime: timedelta | None = None
    """The expected run time: a job that ends in time may use nodes reserved for other jobs."""
    checkpointed_at: datetime | None = None
    """When its work was last saved: work since then is lost if it is stopped."""
    nodes: tuple[NodeId, ...] = ()
    """The nodes of its tasks, in order, while it is placed."""
    reason: str = ""
    """The reason for its state."""
    interruptions: int = 0
    """The number of times it lost its GPUs before its end."""
    deaths: tuple[JobDeath, ...] = ()
    """The latest deaths of its program with a known node, oldest first."""
    reservation: Reservation | None = None
    """The place that it moves to, while it leaves a slow node."""

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return not NEXT_STATES[self.state]

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of its tasks, in order. A waiting job above the limit has none."""
        assert self.nodes or self.tasks <= TASKS_PER_JOB_MAX, f"{self.name}: {self.tasks} tasks"
        return tuple(f"{self.name}/{number}" for number in range(self.tasks))

    def died_on(self, node: NodeId, *, at: datetime) -> "Job":
        """Return this placed job with the death of its program on `node`."""
        assert node in self.nodes, f"{self.name} does not run on {node}"
        death = JobDeath(at=at, node=node, beside=len({*self.nodes} - {node}))
        return evolve(self, deaths=(*self.deaths, death)[-DEATHS_KEPT:])

    def to(
        self, state: JobState, *, at: datetime, reason: str, nodes: tuple[NodeId, ...] = ()
    ) -> "Job":
        """Return this job moved to `state`; an illegal move is a bug.

        A reservation ends with the placement that it was made for, and with the job.
        """
        assert state in NEXT_STATES[self.state], f"{self.name}: {self.state} -> {state}"
        assert bool(nodes) is (state is JobState.PLACED), f"{self.name}: {state} on {nodes}"
        lost = self.state is JobState.PLACED and state is JobState.WAITING
        return evolve(
            self,
            state=state,
            since=at,
            reason=reason,
            nodes=nodes,
            interruptions=self.interruptions + lost,
            reservation=self.reservation if state is JobState.WAITING else None,
        )
