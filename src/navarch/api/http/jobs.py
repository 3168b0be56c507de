"""The JSON API for jobs."""

from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.event import Explanation
from navarch.core.ids import JobName
from navarch.core.job import Job
from navarch.ports.api import JobApi, JobRequest
from navarch.wire.bodies import Items, Reason, Requeue


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuery:
    """A filter of jobs."""

    queue: str | None = None
    over: bool = False


def job_routes(jobs: JobApi) -> list[Route]:
    """Return every operation of JobApi."""

    async def list_jobs(request: Request) -> Items[Job]:
        query = request.query(JobsQuery)
        return await listed(jobs.list_jobs(queue=query.queue, over=query.over))

    return [
        post(
            "submit_job",
            "/v1/jobs",
            "Submit a job; repeating the same request changes nothing",
            lambda request: jobs.submit_job(request.json(JobRequest)),
            Job,
            JobRequest,
        ),
        get(
            "list_jobs",
            "/v1/jobs",
            "List jobs in order of submission; ended ones with ?over=true",
            list_jobs,
            Items[Job],
            JobsQuery,
        ),
        get(
            "get_job",
            "/v1/jobs/{job}",
            "One job: its request, its state, and the nodes of its tasks",
            lambda request: jobs.get_job(_name(request)),
            Job,
        ),
        get(
            "explain_job",
            "/v1/jobs/{job}/why",
            "Explain the state of a job: what blocks it, and what would help",
            lambda request: jobs.explain_job(_name(request)),
            Explanation,
        ),
        *_job_actions(jobs),
    ]


def _job_actions(jobs: JobApi) -> list[Route]:
    async def cancel(request: Request) -> Job:
        return await jobs.cancel_job(_name(request), reason=request.json(Reason).reason)

    async def requeue(request: Request) -> Job:
        body = request.json(Requeue)
        return await jobs.requeue_job(
            _name(request), reason=body.reason, placed_at=body.placed_at, node=body.node
        )

    return [
        post(
            "cancel_job",
            "/v1/jobs/{job}:cancel",
            "Cancel a waiting or running job",
            cancel,
            Job,
            Reason,
        ),
        post(
            "finish_job",
            "/v1/jobs/{job}:finish",
            "Mark a job as finished and release its GPUs",
            lambda request: jobs.finish_job(_name(request)),
            Job,
        ),
        post(
            "checkpoint_job",
            "/v1/jobs/{job}:checkpoint",
            "Record that a job has saved a checkpoint",
            lambda request: jobs.checkpoint_job(_name(request)),
            Job,
        ),
        post(
            "requeue_job",
            "/v1/jobs/{job}:requeue",
            "Release the GPUs of a job whose program has stopped, and queue the job again",
            requeue,
            Job,
            Requeue,
        ),
    ]


def _name(request: Request) -> JobName:
    return JobName(request.names["job"])
