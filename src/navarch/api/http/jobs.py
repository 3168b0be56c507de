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
    """Which."""

    queue: str | None = None
    over: bool = False


class JobRoutes:
    """Answers for one fleet."""

    def __init__(self, jobs: JobApi) -> None:
        self._jobs = jobs

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="POST",
            path="/v1/jobs",
            summary="Ask for GPUs that start together; the same request again changes nothing",
            handle=self._submit,
            reply=Job,
            body=JobRequest,
        )
        yield Route(
            method="GET",
            path="/v1/jobs",
            summary="Jobs in the order in which they came; those that ended with ?over=true",
            handle=self._list,
            reply=Items[Job],
            query=JobsQuery,
        )
        yield Route(
            method="GET",
            path="/v1/jobs/{job}",
            summary="One job: what it asks for, its state, and where its tasks are",
            handle=self._get,
            reply=Job,
        )
        yield Route(
            method="GET",
            path="/v1/jobs/{job}/why",
            summary="Why a job is as it is: how far it gets, who refuses it, what would help",
            handle=self._explain,
            reply=Explanation,
        )
        yield from self._changes()

    def _changes(self) -> Iterable[Route]:
        """Yield the operations on a job that has been submitted."""
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:cancel",
            summary="End a job that waits or runs",
            handle=self._cancel,
            reply=Job,
            body=Reason,
        )
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:finish",
            summary="Give the GPUs of a job back whose work is done",
            handle=self._finish,
            reply=Job,
        )
        yield Route(
            method="POST",
            path="/v1/jobs/{job}:checkpoint",
            summary="Note that a job has saved its work",
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
        asked = request.query(JobsQuery)
        found = await self._jobs.list_jobs(queue=asked.queue, over=asked.over)
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
