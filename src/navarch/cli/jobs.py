"""`navarch job`: submit, list, finish and cancel jobs."""

import asyncio
from datetime import timedelta
from functools import partial

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_job, complete_node, complete_pool
from navarch.cli.errors import CommandError, refuse_over_grpc
from navarch.cli.options import duration, reason_option
from navarch.cli.render.jobs import render_job, render_jobs
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job, JobState
from navarch.ports.api import FleetApi, JobApi, JobRequest

POLL_S = 1.0
TIMED_OUT = 124

NAME = click.argument("name", shell_complete=complete_job)


@click.group("job", cls=Group)
def job() -> None:
    """Manage jobs: gangs of tasks that start together and hold their GPUs until they end.

    Navarch assigns nodes to the tasks; you start the processes there.
    """


@job.command("submit", cls=Command)
@click.argument("name")
@click.option("--gpus", type=click.IntRange(min=1), default=1, help="GPUs per task. [default: 1]")
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    default=1,
    help="Number of tasks, placed together or not at all. [default: 1]",
)
@click.option("--pool", help="Only in this pool.", shell_complete=complete_pool)
@click.option("--type", "gpu_type", default="", help="Only on this GPU type.")
@click.option("--queue", default=DEFAULT_QUEUE, show_default=True, help="Queue to submit to.")
@click.option(
    "--priority",
    type=int,
    default=DEFAULT_PRIORITY,
    show_default=True,
    help="Higher values are placed first.",
)
@click.option("--preemptible", is_flag=True, help="Allow other jobs to preempt it.")
@click.option("--runtime", type=duration, metavar="DURATION", help="Expected run time.")
@click.option("--wait", is_flag=True, help="Wait until the job is placed.")
@with_session
def submit(
    session: Session,
    name: str,
    gpus: int,
    tasks: int,
    pool: str | None,
    gpu_type: str,
    queue: str,
    priority: int,
    preemptible: bool,
    runtime: timedelta | None,
    wait: bool,
) -> None:
    """Submit a job. Repeating the same request changes nothing."""
    request = JobRequest(
        name=JobName(name),
        tasks=tasks,
        gpus=gpus,
        queue=queue,
        pool=PoolName(pool) if pool else None,
        gpu_type=gpu_type,
        priority=priority,
        preemptible=preemptible,
        runtime=runtime,
    )
    job = session.call(lambda api: job_api(api).submit_job(request))
    if wait:
        job = session.call_without_timeout(
            lambda api: _wait_until_placed(session, job_api(api), job)
        )
    _show(session, job)


async def _wait_until_placed(session: Session, api: JobApi, job: Job) -> Job:
    """Return the job once it is placed or has ended."""
    limit = session.timeout_or(WAIT_TIMEOUT)
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while job.state is JobState.WAITING:
                await session.clock.sleep(POLL_S)
                job = await api.get_job(job.name)
    except TimeoutError:
        raise CommandError(
            f"job {job.name} is not placed yet and stays queued. "
            f"See the reason: navarch why job {job.name}",
            TIMED_OUT,
        ) from None
    return job


@job.command("list", cls=Command)
@click.option("--queue", help="Only in this queue.")
@click.option("--all", "over", is_flag=True, help="Include jobs that ended in the last day.")
@with_session
def list_jobs(session: Session, queue: str | None, over: bool) -> None:
    """List jobs in order of submission."""
    session.show_call(lambda api: job_api(api).list_jobs(queue=queue, over=over), render_jobs)


@job.command("get", cls=Command)
@NAME
@with_session
def get(session: Session, name: str) -> None:
    """Show one job: its request, its state and the nodes of its tasks."""
    session.show_call(lambda api: job_api(api).get_job(JobName(name)), render_job)


@job.command("cancel", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_job)
@reason_option
@with_session
def cancel(session: Session, names: tuple[str, ...], reason: str) -> None:
    """Cancel jobs and release their GPUs at once."""

    async def cancel_job(name: str, api: FleetApi) -> Job:
        return await job_api(api).cancel_job(JobName(name), reason=reason)

    jobs = [session.call(partial(cancel_job, name)) for name in names]
    session.show(jobs, lambda _: "\n".join(map(_sentence, jobs)))


@job.command("finish", cls=Command)
@NAME
@with_session
def finish(session: Session, name: str) -> None:
    """Mark a job as finished and release its GPUs."""
    _show(session, session.call(lambda api: job_api(api).finish_job(JobName(name))))


@job.command("checkpoint", cls=Command)
@NAME
@with_session
def checkpoint(session: Session, name: str) -> None:
    """Record that a job has just saved a checkpoint."""
    saved = session.call(lambda api: job_api(api).checkpoint_job(JobName(name)))
    session.show(saved, lambda _: f"Checkpoint of job {saved.name} recorded")


@job.command("requeue", cls=Command)
@NAME
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_node,
    help="The node on which the program failed first.",
)
@reason_option
@with_session
def requeue(session: Session, name: str, node: str | None, reason: str) -> None:
    """Release the GPUs of a job after its program has stopped, and queue the job again."""
    failed_on = None if node is None else NodeId(node)
    call = session.call(
        lambda api: job_api(api).requeue_job(JobName(name), reason=reason, node=failed_on)
    )
    _show(session, call)


def _show(session: Session, job: Job) -> None:
    session.show(job, lambda _: _sentence(job))


def _sentence(job: Job) -> str:
    match job.state:
        case JobState.WAITING:
            return f"Job {job.name} is waiting. See the reason: navarch why job {job.name}"
        case JobState.PLACED:
            return f"Job {job.name} is placed {job.reason}"
        case _:
            return f"Job {job.name} is {job.state.value}"


def job_api(api: FleetApi) -> JobApi:
    """Return `api` as a JobApi, or raise if the connection does not provide it."""
    return api if isinstance(api, JobApi) else refuse_over_grpc("jobs are")
