"""The API for the jobs of the fleet."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from navarch.core.explanation import Explanation
from navarch.core.ids import JobName, PoolName
from navarch.core.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request for GPUs that are allocated together and held until they are released."""

    name: JobName
    tasks: int = 1
    gpus: int = 1
    """Per task, all on one node."""
    queue: str = DEFAULT_QUEUE
    pool: PoolName | None = None
    gpu_type: str = ""
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    runtime: timedelta | None = None
    """The expected run time."""


@runtime_checkable
class JobApi(Protocol):
    """The API for jobs, served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request,
    NotPossibleError for one that does not fit the state of the job.
    """

    async def submit_job(self, request: JobRequest) -> Job:
        """Submit a job; the same request again changes nothing."""

    async def list_jobs(self, *, queue: str | None = None, over: bool = False) -> Sequence[Job]:
        """Return jobs in the order of their submission; with `over`, including ended ones."""

    async def get_job(self, name: JobName) -> Job:
        """Return one job."""

    async def cancel_job(self, name: JobName, *, reason: str) -> Job:
        """Cancel a queued or running job; its GPUs are free at once."""

    async def finish_job(self, name: JobName) -> Job:
        """Mark a job as done and release its GPUs."""

    async def checkpoint_job(self, name: JobName) -> Job:
        """Record that a job has written a checkpoint just now."""

    async def requeue_job(
        self, name: JobName, *, reason: str, placed_at: datetime | None = None
    ) -> Job:
        """Release the GPUs of a placed job after its program has stopped, and requeue the job.

        With `placed_at`, only the placement that began at that time is ended: a job that has
        been placed again since, or waits already, is returned unchanged.
        """

    async def explain_job(self, name: JobName) -> Explanation:
        """Return the reasons for the state of a job, from the present fleet."""
