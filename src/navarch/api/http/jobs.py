"""The JSON API for jobs."""

from collections.abc import Iterable
from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.explanation import Explanation
from navarch.core.ids import JobName
from navarch.core.job import Job
from navarch.ports.jobs import JobApi, JobRequest
from navarch.wire.bodies import Items, Reason, Requeue


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuery:
    """A filter of jobs."""

    queue: str | None = None
    over: bool = False


class JobRoutes:
    """The routes of JobApi."""

    def __init__(self, jobs: JobApi) -> None:
        self._jobs = jobs

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="POST",
            path="/v1/jobs",
            summary="Submit a job; repeating the same request changes nothing",
            handle=self._submit,
            reply=Job,
            body=JobRequest,
        )
        yield Route(
            method="GET",
            path="/v1/jobs",
            summary="List jobs in order of submission; ended ones with ?over=true",
            handle=self._list,
            reply=Items[Job],
            query=JobsQuery,
        )
        yield Route(
            method="GET",
            path="/v1/jobs/{job}",
            summary="One job: its request, its state, and the nodes of its tasks",
            handle=self._get,
            reply=Job,
        )
        yield Route(
            method="GET",
            path="/v1/jobs/{job}/why",
            summary="Explain the state of a job: what blocks it, and what would help",
            handle=self._explain,
            reply=Explanation,
        )
        yield from self._changes()

    def _changes(self) -> Iterable[Route]:
        """Yield the operations on a job that has been submitted."""
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:cancel",
            summary="Cancel a waiting or running job",
            handle=self._cancel,
            reply=Job,
            body=Reason,
        )
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:finish",
            summary="Mark a job as finished and release its GPUs",
            handle=self._finish,
            reply=Job,
        )
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:checkpoint",
            summary="Record that a job has saved a checkpoint",
            handle=self._checkpoint,
            reply=Job,
        )
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:requeue",
            summary="Release the GPUs of a job whose program has stopped, and queue the job again",
            handle=self._requeue,
            reply=Job,
            body=Requeue,
        )

    async def _submit(self, request: Request) -> Job:
        return await self._jobs.submit_job(request.json(JobRequest))

    async def _list(self, request: Request) -> Items[Job]:
        query = request.query(JobsQuery)
        found = await self._jobs.list_jobs(queue=query.queue, over=query.over)
        return Items(items=tuple(found))

    async def _get(self, request: Request) -> Job:
        return await self._jobs.get_job(_name(request))

    async def _explain(self, request: Request) -> Explanation:
        return await self._jobs.explain_job(_name(request))

    async def _cancel(self, request: Request) -> Job:
        return await self._jobs.cancel_job(_name(request), reason=request.json(Reason).reason)

    async def _finish(self, request: Request) -> Job:
        return await self._jobs.finish_job(_name(request))

    async def _checkpoint(self, request: Request) -> Job:
        return await self._jobs.checkpoint_job(_name(request))

    async def _requeue(self, request: Request) -> Job:
        body = request.json(Requeue)
        return await self._jobs.requeue_job(
            _name(request), reason=body.reason, placed_at=body.placed_at
        )


def _name(request: Request) -> JobName:
    return JobName(request.names["job"])
