"""Jobs: gangs of equal tasks that hold GPUs of the fleet from their placement to their end."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from navarch.core.evolve import evolve
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.limits import TASKS_PER_JOB_MAX

DEFAULT_QUEUE = "default"

DEFAULT_PRIORITY = 50


class JobState(StrEnum):
    """Where a job stands."""

    WAITING = "waiting"
    """It has no GPUs: not yet, or not any more."""
    PLACED = "placed"
    """All of its tasks have their GPUs."""
    FINISHED = "finished"
    CANCELLED = "cancelled"


NEXT_STATES: Mapping[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset({JobState.PLACED, JobState.CANCELLED}),
    # Back to waiting: a node is lost, or somebody else goes before it.
    JobState.PLACED: frozenset({JobState.WAITING, JobState.FINISHED, JobState.CANCELLED}),
    JobState.FINISHED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and what has come of it."""

    name: JobName
    submitted_at: datetime
    since: datetime
    """When it entered its state."""
    state: JobState = JobState.WAITING
    queue: str = DEFAULT_QUEUE
    tasks: int = 1
    """How many tasks start together, or not at all."""
    gpus: int = 1
    """Of each task, all on one node."""
    pool: PoolName | None = None
    """The only pool it may run on; None: any."""
    gpu_type: str = ""
    """The only kind of GPU that will do; empty: any."""
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    """Whether it may be made to wait again for others."""
    runtime: timedelta | None = None
    """How long it is expected to run: what ends in time may use nodes that are kept for others."""
    checkpointed_at: datetime | None = None
    """When its work was last saved: what it did since is lost if it is stopped."""
    nodes: tuple[NodeId, ...] = ()
    """Where its tasks are, in order, while it is placed."""
    reason: str = ""
    """Why it is in its state."""
    interruptions: int = 0
    """How often it lost its GPUs before its end."""

    @property
    def over(self) -> bool:
        """Whether nothing will become of it any more."""
        return not NEXT_STATES[self.state]

    @property
    def gpus_in_all(self) -> int:
        """Of all its tasks together."""
        return self.tasks * self.gpus

    @property
    def task_names(self) -> tuple[str, ...]:
        """What its tasks are called, in order; not to be asked of a job above the limit."""
        assert self.nodes or self.tasks <= TASKS_PER_JOB_MAX, f"{self.name}: {self.tasks} tasks"
        return tuple(f"{self.name}/{number}" for number in range(self.tasks))

    def to(
        self, state: JobState, *, at: datetime, reason: str, nodes: tuple[NodeId, ...] = ()
    ) -> "Job":
        """Return this job moved to `state`; an illegal move is a bug."""
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
        )
