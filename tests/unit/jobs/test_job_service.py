"""The job service: submission, completion and explanations."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

import pytest

from navarch.core.access import Grant, Identity, Role, Scope, acting_as
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.fleet import Change
from navarch.core.ids import JobName, PoolName
from navarch.core.job import JobState, Queue
from navarch.core.limits import JOBS_WAITING, TASKS_PER_JOB_MAX
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.ports.api import JobRequest
from navarch.scheduler.config import OWN_PLUGINS, PluginConfig, SchedulerConfig
from navarch.service.jobs import JobService
from navarch.service.scoping import CallersStore
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import a_job, a_node, a_pool, indexed

T = TypeVar("T")

TRAIN = JobRequest(name=JobName("train"), tasks=2, gpus=8)


class Case:
    def __init__(self, scheduling: Scheduling) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="test", secret=bytes(32)))
        self.index = indexed(self.store)
        self.jobs = JobService(
            self.clock, self.store, self.index, InlineOffload(), lambda: scheduling
        )

    async def write(self, **change: object) -> None:
        await self.store.commit(Change(**change), based_on=self.store.fleet().revision)  # type: ignore[arg-type]


def run(story: Callable[[Case], Awaitable[None]], scheduling: Scheduling | None = None) -> None:
    async def main() -> None:
        await story(Case(scheduling or Scheduling()))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_submitted_job_waits() -> None:
    async def story(case: Case) -> None:
        job = await case.jobs.submit_job(TRAIN)
        assert (job.state, job.submitted_at) == (JobState.WAITING, case.clock.now())
        assert await case.jobs.get_job(TRAIN.name) == job
        (entry,) = await case.store.events()
        assert entry.event.reason == "requests 2 tasks with 8 GPUs each"

    run(story)


def test_the_same_request_again_changes_nothing() -> None:
    async def story(case: Case) -> None:
        first = await case.jobs.submit_job(TRAIN)
        revision = case.store.fleet().revision
        assert await case.jobs.submit_job(TRAIN) == first
        assert case.store.fleet().revision == revision

    run(story)


def test_another_request_under_the_name_of_a_live_job_is_refused() -> None:
    async def story(case: Case) -> None:
        await case.jobs.submit_job(TRAIN)
        with pytest.raises(NotPossibleError, match="exists already with another request"):
            await case.jobs.submit_job(replace(TRAIN, gpus=4))
        await case.jobs.cancel_job(TRAIN.name, reason="")
        again = await case.jobs.submit_job(replace(TRAIN, gpus=4))
        assert (again.state, again.gpus) == (JobState.WAITING, 4)

    run(story)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": JobName("Big Job")}, "name: 'Big Job' must be"),
        ({"tasks": 0}, "tasks: must be 1 to"),
        ({"tasks": TASKS_PER_JOB_MAX + 1}, "tasks: must be 1 to 10000, not 10001"),
        ({"gpus": 65}, "gpus: must be 1 to 64"),
        ({"priority": -1}, "priority: must be"),
        ({"runtime": timedelta(0)}, "runtime: must be longer than zero"),
        ({"queue": "nobody"}, "queue: nobody does not exist; choose one of default"),
        ({"pool": PoolName("nobody")}, "pool: nobody does not exist; choose one of training"),
        ({"pool": PoolName("training"), "gpus": 16}, "gpus: a task has its GPUs on one node"),
    ],
)
def test_an_invalid_request_is_refused_with_the_name_of_the_field(
    wrong: dict[str, object], message: str
) -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()])
        with pytest.raises(InvalidError, match=message.replace("'", ".")):
            await case.jobs.submit_job(replace(TRAIN, **wrong))  # type: ignore[arg-type]
        assert not case.store.fleet().jobs

    run(story)


def test_jobs_are_accepted_by_leaf_queues_only() -> None:
    queues = {"all": Queue(name="all"), "team": Queue(name="team", parent="all")}

    async def story(case: Case) -> None:
        with pytest.raises(InvalidError, match=r"all has child queues.*choose one of team"):
            await case.jobs.submit_job(replace(TRAIN, queue="all"))
        assert (await case.jobs.submit_job(replace(TRAIN, queue="team"))).queue == "team"

    run(story, Scheduling(queues=queues))


def test_a_job_ends_once() -> None:
    async def story(case: Case) -> None:
        await case.write(jobs=[a_job("runs", on=("n0",)), a_job("waits")])
        done = await case.jobs.finish_job(JobName("runs"))
        assert (done.state, done.nodes) == (JobState.FINISHED, ())
        assert await case.jobs.finish_job(JobName("runs")) == done
        with pytest.raises(NotPossibleError, match="is finished already"):
            await case.jobs.cancel_job(JobName("runs"), reason="")
        with pytest.raises(NotPossibleError, match="has no GPUs"):
            await case.jobs.finish_job(JobName("waits"))
        with pytest.raises(NotFoundError):
            await case.jobs.cancel_job(JobName("nobody"), reason="")

    run(story)


def test_ended_jobs_are_listed_on_request() -> None:
    async def story(case: Case) -> None:
        await case.write(jobs=[a_job("b"), a_job("a"), a_job("over", state=JobState.CANCELLED)])
        assert [job.name for job in await case.jobs.list_jobs()] == ["a", "b"]
        assert len(await case.jobs.list_jobs(over=True)) == 3
        assert await case.jobs.list_jobs(queue="other") == []

    run(story)


def test_a_stored_job_above_the_limit_waits_with_the_limit_as_its_reason() -> None:
    async def story(case: Case) -> None:
        huge = a_job("huge", tasks=10**9)
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[huge, a_job("next")])
        why = (
            "1000000000 tasks are above the limit of 10000 tasks per job; cancel it and submit "
            "smaller jobs: navarch job cancel huge"
        )
        assert (await case.jobs.get_job(huge.name)).reason == why
        assert [job.reason for job in await case.jobs.list_jobs()] == [why, ""]
        found = await case.jobs.explain_job(huge.name)
        assert (found.state, found.summary) == ("waiting", f"job huge waits: {why}")
        other = await case.jobs.explain_job(JobName("next"))
        assert other.ahead == 0
        ended = await case.jobs.cancel_job(huge.name, reason="")
        assert (ended.state, ended.reason) == (JobState.CANCELLED, "cancelled by hand")

    run(story)


def test_only_a_running_job_can_record_a_checkpoint() -> None:
    async def story(case: Case) -> None:
        await case.write(jobs=[a_job("runs", on=("n0",)), a_job("waits")])
        saved = await case.jobs.checkpoint_job(JobName("runs"))
        assert saved.checkpointed_at == case.clock.now()
        with pytest.raises(NotPossibleError):
            await case.jobs.checkpoint_job(JobName("waits"))

    run(story)


def test_a_requeued_job_releases_its_gpus_and_waits_again() -> None:
    async def story(case: Case) -> None:
        await case.write(jobs=[a_job("runs", on=("n0",)), a_job("waits")])
        queued = await case.jobs.requeue_job(JobName("runs"), reason="NCCL timed out")
        assert (queued.state, queued.nodes) == (JobState.WAITING, ())
        assert (queued.reason, queued.interruptions) == ("NCCL timed out", 1)
        assert await case.jobs.requeue_job(JobName("runs"), reason="again") == queued
        waits = await case.jobs.get_job(JobName("waits"))
        assert await case.jobs.requeue_job(JobName("waits"), reason="") == waits
        await case.jobs.cancel_job(JobName("runs"), reason="")
        with pytest.raises(NotPossibleError, match="is cancelled already"):
            await case.jobs.requeue_job(JobName("runs"), reason="")

    run(story)


def test_a_late_requeue_does_not_stop_a_job_that_was_placed_again() -> None:
    async def story(case: Case) -> None:
        first = a_job("runs", on=("n0",))
        again = evolve(first, since=first.since + timedelta(minutes=5))
        await case.write(jobs=[again])
        kept = await case.jobs.requeue_job(first.name, reason="died", placed_at=first.since)
        assert kept == again
        ended = await case.jobs.requeue_job(first.name, reason="died", placed_at=again.since)
        assert ended.state is JobState.WAITING

    run(story)


def test_an_explanation_names_the_progress_the_refusing_plugin_and_remedies() -> None:
    async def story(case: Case) -> None:
        await case.write(
            pools=[a_pool(size=3)],
            nodes=[a_node("n0"), a_node("n1"), evolve(a_node("n2"), cordoned="by hand")],
            jobs=[a_job("holds", on=("n0",)), a_job("waits", tasks=2)],
        )

        found = await case.jobs.explain_job(JobName("waits"))

        assert found.attempt is not None
        assert (found.attempt.placed, found.attempt.of, found.attempt.on) == (1, 2, ("n1",))
        refused = {(r.rule, r.reason): r.examples for r in found.attempt.refusals}
        assert refused[("predicates", "the node is cordoned")] == ("n2",)
        assert set(refused[("resources", "not enough is free")]) == {"n0", "n1"}
        assert any("the node is cordoned" in remedy.says for remedy in found.remedies)
        assert any("navarch pool scale training 4" in remedy.says for remedy in found.remedies)

    run(story)


def test_an_explanation_of_a_full_queue_names_the_queue_and_the_shortfall() -> None:
    async def story(case: Case) -> None:
        await case.write(
            pools=[a_pool()],
            nodes=[a_node("n0"), a_node("n1")],
            jobs=[a_job("r0", on=("n0",), queue="r"), a_job("r1", queue="r")],
        )

        found = await case.jobs.explain_job(JobName("r1"))

        assert found.bound is not None
        assert (found.bound.queue, found.bound.used, found.bound.bound) == ("r", 8, 8)
        assert [(other.kind, other.bound) for other in found.also_bound] == [("quota", 0)]
        assert [remedy.says for remedy in found.remedies] == [
            "raise the limit of queue r by 8 GPUs, and raise the quota of queue r by 16 GPUs",
            "make the job preemptible: preemptible jobs may exceed the quota, "
            "and raise the limit of queue r by 8 GPUs",
        ]

    run(story, Scheduling(queues={"r": Queue(name="r", limit=8)}))


def test_more_nodes_are_not_suggested_if_a_quota_would_refuse_them() -> None:
    quota = PluginConfig(name="gputypequota", arguments={"limits": "default/h100=4"})

    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j", gpus=8)])

        found = await case.jobs.explain_job(JobName("j"))

        assert not any("navarch pool scale" in remedy.says for remedy in found.remedies)
        assert any(
            "lift the rule of gputypequota for n0" in remedy.says for remedy in found.remedies
        )

    run(story, Scheduling(config=SchedulerConfig(plugins=(quota, *OWN_PLUGINS))))


@pytest.mark.parametrize(
    ("state", "message"),
    [(JobState.FINISHED, "has finished"), (JobState.CANCELLED, "was cancelled")],
)
def test_the_explanation_of_an_ended_job_is_its_end(state: JobState, message: str) -> None:
    async def story(case: Case) -> None:
        await case.write(jobs=[a_job("j", state=state, reason="enough")])
        found = await case.jobs.explain_job(JobName("j"))
        assert found.state == state.value
        assert message in found.summary
        assert "enough" in found.summary

    run(story)


def test_only_the_waiting_jobs_that_a_caller_sees_count_for_its_limit() -> None:
    async def story(case: Case) -> None:
        pools = [a_pool("own"), a_pool("other")]
        waiting = [a_job(f"w{i}", pool="other") for i in range(JOBS_WAITING.most)]
        await case.write(pools=pools, jobs=waiting)
        callers = CallersStore(case.store, Scope(pools=("own",)))
        scoped = JobService(case.clock, callers, case.index, InlineOffload(), Scheduling)

        with acting_as(Identity(subject="kim", grants=(Grant(role=Role.OPERATOR),))):
            await scoped.submit_job(replace(TRAIN, pool=PoolName("own")))
            with pytest.raises(NotPossibleError, match="submit more when some have started"):
                await case.jobs.submit_job(replace(TRAIN, name=JobName("more")))

    run(story)
