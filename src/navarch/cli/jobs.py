"""`navarch job`: GPUs that start together, are held, and are given back."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import click

from navarch.cli.commands import Command, Group
from navarch.cli.completion import complete_job, complete_pool
from navarch.cli.errors import CommandError
from navarch.cli.options import duration
from navarch.cli.output import Output
from navarch.cli.render.jobs import render_job, render_jobs
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.core.errors import NotPossibleError
from navarch.core.ids import JobName, PoolName
from navarch.core.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job, JobState
from navarch.ports.api import FleetApi
from navarch.ports.jobs import JobApi, JobRequest

POLL_S = 1.0
TIMED_OUT = 124

NAME = click.argument("name", shell_complete=complete_job)


@click.group("job", cls=Group)
def job() -> None:
    """Jobs: gangs of tasks that start together and hold their GPUs until they end.

    Navarch decides where they go; what runs there is up to you.
    """


@job.command("submit", cls=Command)
@click.argument("name")
@click.option("--gpus", type=click.IntRange(min=1), default=1, help="Of each task. [default: 1]")
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    default=1,
    help="How many start together, or none. [default: 1]",
)
@click.option("--pool", help="The only pool that will do.", shell_complete=complete_pool)
@click.option("--type", "gpu_type", default="", help="The only type of GPU that will do.")
@click.option("--queue", default=DEFAULT_QUEUE, show_default=True, help="Who waits with it.")
@click.option(
    "--priority", type=int, default=DEFAULT_PRIORITY, show_default=True, help="Higher goes first."
)
@click.option("--preemptible", is_flag=True, help="It may be made to wait again for others.")
@click.option(
    "--runtime", type=duration, metavar="DURATION", help="How long it is expected to run."
)
@click.option("--wait", is_flag=True, help="Until it has its GPUs.")
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
    """Ask for GPUs that start together. The same request again changes nothing."""
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
    taken = session.call(lambda api: job_api(api).submit_job(request))
    if wait:
        taken = session.call_without_timeout(lambda api: _placed(session, job_api(api), taken))
    _show(session, taken)


async def _placed(session: Session, api: JobApi, job: Job) -> Job:
    """Return the job once it has its GPUs, or has ended without."""
    limit = session.timeout_or(WAIT_TIMEOUT)
    try:
        async with asyncio.timeout(limit.total_seconds()):
            while job.state is JobState.WAITING:
                await session.clock.sleep(POLL_S)
                job = await api.get_job(job.name)
    except TimeoutError:
        raise CommandError(
            f"job {job.name} still waits, and stays in its queue; "
            f"for the reason: navarch why job {job.name}",
            TIMED_OUT,
        ) from None
    return job


@job.command("list", cls=Command)
@click.option("--queue", help="Only in this queue.")
@click.option("--all", "over", is_flag=True, help="Also those that ended in the last day.")
@with_session
def list_jobs(session: Session, queue: str | None, over: bool) -> None:
    """List jobs in the order in which they came."""
    found = session.call(lambda api: job_api(api).list_jobs(queue=queue, over=over))
    session.show(found, lambda canvas: render_jobs(found, canvas))


@job.command("get", cls=Command)
@NAME
@with_session
def get(session: Session, name: str) -> None:
    """Show one job: what it asks for, its state, and where its tasks are."""
    found = session.call(lambda api: job_api(api).get_job(JobName(name)))
    session.show(found, lambda canvas: render_job(found, canvas))


@job.command("cancel", cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_job)
@click.option("--reason", default="", help="Why; it is kept.")
@with_session
def cancel(session: Session, names: tuple[str, ...], reason: str) -> None:
    """End jobs that wait or run; their GPUs are free at once."""
    _show_all(session, [_cancelled(session, JobName(name), reason) for name in names])


def _cancelled(session: Session, name: JobName, reason: str) -> Job:
    return session.call(lambda api: job_api(api).cancel_job(name, reason=reason))


@job.command("finish", cls=Command)
@NAME
@with_session
def finish(session: Session, name: str) -> None:
    """Give the GPUs of a job back whose work is done."""
    _show(session, session.call(lambda api: job_api(api).finish_job(JobName(name))))


@job.command("checkpoint", cls=Command)
@NAME
@with_session
def checkpoint(session: Session, name: str) -> None:
    """Note that a job has just saved its work, so that less is lost if it is stopped."""
    saved = session.call(lambda api: job_api(api).checkpoint_job(JobName(name)))
    if session.output is Output.TABLE:
        click.echo(f"Job {saved.name} has saved its work")
    else:
        _show(session, saved)


def _show(session: Session, job: Job) -> None:
    session.show(job, lambda _: _sentence(job))


def _show_all(session: Session, jobs: Sequence[Job]) -> None:
    session.show(jobs, lambda _: "\n".join(map(_sentence, jobs)))


def _sentence(job: Job) -> str:
    match job.state:
        case JobState.WAITING:
            return f"Job {job.name} waits; for the reason: navarch why job {job.name}"
        case JobState.PLACED:
            return f"Job {job.name} has its GPUs {job.reason}"
        case _:
            return f"Job {job.name} is {job.state.value}"


def job_api(api: FleetApi) -> JobApi:
    """Return the part of the server that answers, or say how to reach it."""
    if not isinstance(api, JobApi):
        raise NotPossibleError("jobs are served over HTTP; use an http:// or https:// server")
    return api
