"""Jobs over the wire and on the command line."""

import asyncio
import json
from datetime import timedelta

import pytest
from click.testing import CliRunner
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.clock import SystemClock
from navarch.control.jobs import JobController
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.ids import JobName
from navarch.core.job import JobState
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.ports.api import JobApi, JobRequest
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.worlds import ControllerDriver, indexed


def typed(server: str, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(navarch, [*words, "--server", server])
    assert result.exit_code == code, result.output
    return result.output


async def place(local: LocalApi) -> None:
    """Do one round of the loop, which the local API does not run."""
    clock = SystemClock()
    index = indexed(local.store)
    controller = JobController(clock, local.store, InlineOffload(), index, scheduling=Scheduling)
    loop = ControllerDriver(clock, local.store, controller)
    await loop.reconcile()


def test_a_job_is_submitted_shown_and_ended_over_http() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(), grpc=False) as local:
            node = await local.register("gpu-1")
            api = connect_fleet(local.http_url)
            assert isinstance(api, JobApi)
            asked = JobRequest(name=JobName("train"), gpus=8, preemptible=True)
            assert (await api.submit_job(asked)).state is JobState.WAITING
            await place(local)
            job = await api.get_job(asked.name)
            assert (job.state, job.nodes, job.preemptible) == (JobState.PLACED, (node,), True)
            assert (await api.checkpoint_job(asked.name)).checkpointed_at is not None
            kept = await api.requeue_job(
                asked.name, reason="late", placed_at=job.since - timedelta(minutes=1)
            )
            assert kept.nodes == (node,)
            queued = await api.requeue_job(asked.name, reason="died", placed_at=job.since)
            assert (queued.state, queued.reason) == (JobState.WAITING, "died")
            await place(local)
            assert (await api.explain_job(asked.name)).state == "waiting", "it has just died there"
            await local.register("gpu-2")
            await place(local)
            assert [each.name for each in await api.list_jobs()] == ["train"]
            assert (await api.explain_job(asked.name)).state == "placed"
            assert (await api.finish_job(asked.name)).state is JobState.FINISHED
            assert await api.list_jobs() == ()
            assert len(await api.list_jobs(queue="default", over=True)) == 1
            with pytest.raises(InvalidError, match="queue: nobody does not exist"):
                await api.submit_job(JobRequest(name=JobName("x"), queue="nobody"))
            with pytest.raises(NotFoundError):
                await api.explain_job(JobName("nobody"))
            await api.close()

    asyncio.run(main())


def test_the_command_line_shows_why_a_job_waits_and_how_it_ended() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(), grpc=False) as local:
            await local.register("gpu-1")

            async def navarch(*words: str, code: int = 0) -> str:
                return await asyncio.to_thread(typed, local.http_url, *words, code=code)

            assert "No jobs found" in await navarch("job", "list")
            printed = await navarch("job", "submit", "big", "--gpus", "8", "--tasks", "2")
            assert "navarch why job big" in printed
            why = await navarch("why", "job", "big")
            assert "1 of 2 tasks that start together fit" in why
            assert "what would help" in why
            assert "submitted: requests 2 tasks with 8 GPUs each" in why
            assert why == await navarch("why", "big")
            found = json.loads(await navarch("why", "job", "big", "--output", "json"))
            assert found["attempt"]["refusals"][0]["rule"] == "resources"
            assert "waiting" in await navarch("job", "list")
            await local.register("gpu-2")
            await place(local)
            assert "big/1 on gpu-" in await navarch("job", "get", "big")
            assert "has all its GPUs" in await navarch("why", "job", "big")
            assert "Job big is waiting" in await navarch("job", "requeue", "big", "--reason", "OOM")
            assert "interrupted: OOM" in await navarch("why", "job", "big")
            assert "is cancelled" in await navarch("job", "cancel", "big", "--reason", "enough")
            assert "cancelled: enough" in await navarch("why", "job", "big")
            lost = await navarch("why", "job", "nobody", code=3)
            assert "job 'nobody' not found. List jobs with: navarch job list --all" in lost

    asyncio.run(main())
