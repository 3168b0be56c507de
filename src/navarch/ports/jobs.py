"""Jobs: what may be asked about the fleet's own queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from navarch.core.explanation import Explanation
from navarch.core.ids import JobName, PoolName
from navarch.core.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A wish for GPUs that start together, and are held until they are given back."""

    name: JobName
    tasks: int = 1
    gpus: int = 1
    """Of each task, all on one node."""
    queue: str = DEFAULT_QUEUE
    pool: PoolName | None = None
    gpu_type: str = ""
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    runtime: timedelta | None = None
    """How long it is expected to run."""


@runtime_checkable
class JobApi(Protocol):
    """What anybody may ask about jobs. Served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for a request that makes no sense,
    NotPossibleError for one that does not fit the state of the job.
    """

    async def submit_job(self, request: JobRequest) -> Job:
        """Take a job in; the same request again changes nothing."""
        ...

    async def list_jobs(self, *, queue: str | None = None, over: bool = False) -> Sequence[Job]:
        """Return jobs, in the order in which they came; with `over`, also those that ended."""
        ...

    async def get_job(self, name: JobName) -> Job:
        """Return one job."""
        ...

    async def cancel_job(self, name: JobName, *, reason: str) -> Job:
        """End a job that waits or runs; its GPUs are free at once."""
        ...

    async def finish_job(self, name: JobName) -> Job:
        """Give the GPUs of a job back whose work is done."""
        ...

    async def checkpoint_job(self, name: JobName) -> Job:
        """Note that a job has saved its work just now."""
        ...

    async def requeue_job(
        self, name: JobName, *, reason: str, placed_at: datetime | None = None
    ) -> Job:
        """Release the GPUs of a placed job whose program has stopped, and queue the job again.

        With `placed_at`, only the placement that began at that time is ended: a job that has
        been placed again since, or waits already, is returned unchanged.
        """
        ...

    async def explain_job(self, name: JobName) -> Explanation:
        """Return why a job is as it is, from the fleet as it is now."""
        ...
