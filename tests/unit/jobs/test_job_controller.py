"""The controller that places jobs, and the protection of their nodes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from navarch.control.jobs import (
    KEEP,
    LOOK_EVERY,
    PAUSE,
    HeldReadings,
    JobAwareNotifier,
    JobController,
)
from navarch.core.fleet import Change
from navarch.core.ids import JobName, NodeId
from navarch.core.job import JobState, Reservation
from navarch.core.node import Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.notifiers.log import LogWorkloads
from navarch.scheduler.config import OWN_PLUGINS, Parameters, SchedulerConfig
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import ControllerDriver, a_job, a_node, a_pool, indexed

T = TypeVar("T")


class Case:
    """A store, a job controller, and a count of how often it read the scheduler settings."""

    def __init__(self, scheduling: Scheduling | None = None) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="test", secret=bytes(32)))
        self.looks = 0
        self._scheduling = scheduling or Scheduling()
        controller = JobController(
            self.clock, self.store, self, indexed(self.store), scheduling=lambda: self._scheduling
        )
        self.loop = ControllerDriver(self.clock, self.store, controller)

    async def run(self, call: Callable[[], T]) -> T:
        """Run inline what the controller runs in a thread."""
        self.looks += 1
        return await InlineOffload().run(call)

    async def write(self, **change: object) -> None:
        await self.store.commit(Change(**change), based_on=self.store.fleet().revision)  # type: ignore[arg-type]

    def state(self, job: str) -> JobState:
        return self.store.fleet().jobs[JobName(job)].state


def run(story: Callable[[Case], Awaitable[None]], scheduling: Scheduling | None = None) -> None:
    async def main() -> None:
        await story(Case(scheduling))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_only_changes_of_jobs_and_capacity_wake_the_controller() -> None:
    async def story(case: Case) -> None:
        assert case.loop.due_at() is None
        await case.write(pools=[a_pool()], nodes=[a_node("n0")])
        assert case.loop.due_at() is None
        await case.write(jobs=[a_job("j")])
        assert case.loop.due_at() == case.clock.now()
        await case.loop.reconcile()
        assert await case.loop.reconcile() is None
        assert case.loop.due_at() is None
        await case.write(jobs=[a_job("waits")])
        assert case.loop.due_at() == case.clock.now()
        await case.loop.reconcile()
        assert case.loop.due_at() == case.clock.now() + LOOK_EVERY
        await case.write(pools=[a_pool(size=3)])
        assert case.loop.due_at() == case.clock.now() + LOOK_EVERY
        await case.write(nodes=[a_node("n1")])
        assert case.loop.due_at() == case.clock.now() + PAUSE

    run(story)


def test_a_job_that_fits_is_placed_at_once() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j")])
        await case.loop.reconcile()
        assert case.state("j") is JobState.PLACED

    run(story)


def test_no_plan_is_made_while_nothing_has_changed() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], jobs=[a_job("j")])
        moments = [await case.loop.reconcile() for _ in range(5)]
        assert case.looks == 1
        assert all(moment is not None and moment > case.clock.now() for moment in moments)

    run(story)


def test_a_new_node_is_considered_within_about_a_second() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], jobs=[a_job("j")])
        await case.loop.reconcile()
        await case.write(nodes=[a_node("n0")])
        wake_at = await case.loop.reconcile()
        assert wake_at is not None
        assert wake_at - case.clock.now() <= timedelta(seconds=1)
        await case.clock.sleep(1.0)
        await case.loop.reconcile()
        assert case.state("j") is JobState.PLACED

    run(story)


def test_a_fleet_without_jobs_costs_nothing() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")])
        assert await case.loop.reconcile() is None
        assert case.looks == 0

    run(story)


def test_no_plan_is_made_while_every_job_runs() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j", on=("n0",))])
        await case.loop.reconcile()
        await case.clock.sleep(60.0)
        await case.write(nodes=[a_node("n1")])
        await case.loop.reconcile()
        assert case.looks == 0
        await case.write(nodes=[a_node("n0", phase=Phase.GONE)])
        await case.clock.sleep(60.0)
        await case.loop.reconcile()
        assert (case.looks, case.state("j")) == (1, JobState.WAITING)

    run(story)


def test_a_reservation_ends_in_time_although_nothing_else_happens() -> None:
    async def story(case: Case) -> None:
        until = case.clock.now() + timedelta(minutes=30)
        reservation = Reservation(nodes=(NodeId("n1"),), until=until)
        job = a_job("j", on=("n0",), preemptible=False, reservation=reservation)
        nodes = [a_node("n0", phase=Phase.DRAINING), a_node("n1")]
        await case.write(pools=[a_pool()], nodes=nodes, jobs=[job])
        await case.loop.reconcile()
        assert case.loop.due_at() == until
        await case.clock.sleep(30 * 60.0)
        await case.loop.reconcile()
        assert case.store.fleet().jobs[JobName("j")].reservation is None

    run(story)


def test_a_reservation_of_a_job_that_stays_ends_although_every_node_is_ready() -> None:
    async def story(case: Case) -> None:
        until = case.clock.now() + timedelta(minutes=30)
        job = a_job("j", on=("n0",), reservation=Reservation(nodes=(NodeId("n1"),), until=until))
        await case.write(pools=[a_pool()], nodes=[a_node("n0"), a_node("n1")], jobs=[job])
        await case.loop.reconcile()
        assert case.store.fleet().jobs[JobName("j")].reservation is None

    run(story)


def test_an_abandoned_search_is_recorded_once() -> None:
    async def story(case: Case) -> None:
        await case.write(
            pools=[a_pool()],
            nodes=[a_node("n0")],
            jobs=[a_job("cheap", on=("n0",), preemptible=True), a_job("urgent", priority=90)],
        )
        for _ in range(3):
            await case.loop.reconcile()
            await case.clock.sleep(60.0)
        events = [entry.event for entry in await case.store.events()]
        reasons = [e.reason for e in events if e.kind == "job.gave_up" and e.about == "job/urgent"]
        assert reasons == ["preempt gave up looking for room after 0 simulations"]

    bounded = Parameters(simulations_per_action=0)
    run(story, Scheduling(config=SchedulerConfig(plugins=OWN_PLUGINS, parameters=bounded)))


def test_jobs_that_ended_long_ago_are_deleted() -> None:
    async def story(case: Case) -> None:
        now = case.clock.now()
        await case.write(
            jobs=[
                a_job("old", state=JobState.FINISHED, since=now - KEEP),
                a_job("new", state=JobState.FINISHED, since=now),
            ]
        )
        await case.loop.reconcile()
        assert list(case.store.fleet().jobs) == ["new"]
        wake_at = await case.loop.reconcile()
        assert wake_at is not None
        assert case.loop.due_at() is not None
        await case.clock.sleep(KEEP.total_seconds())
        await case.loop.reconcile()
        assert not case.store.fleet().jobs

    run(story)


def test_a_node_is_not_empty_while_a_job_holds_gpus_on_it() -> None:
    async def story(case: Case) -> None:
        await case.write(nodes=[a_node("n0"), a_node("n1")], jobs=[a_job("j", on=("n0",))])
        notifier = JobAwareNotifier(indexed(case.store), LogWorkloads())
        assert not await notifier.is_drained(NodeId("n0"))
        assert await notifier.is_drained(NodeId("n1"))

    run(story)


class Idle:
    """Telemetry that reports every node as idle."""

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        return [0.0 for _ in nodes]


def test_gpus_of_a_job_count_as_in_use_even_if_idle() -> None:
    async def story(case: Case) -> None:
        readings = HeldReadings(indexed(case.store), Idle())
        names = [NodeId("n0"), NodeId("n1")]
        await case.write(nodes=[a_node("n0"), a_node("n1")], jobs=[a_job("j", on=("n0",))])
        assert list(readings.utilization(names)) == [100.0, 0.0]
        ended = (
            case.store.fleet()
            .jobs[JobName("j")]
            .to(JobState.FINISHED, at=case.clock.now(), reason="done")
        )
        await case.write(jobs=[ended])
        assert list(readings.utilization(names)) == [0.0, 0.0]

    run(story)


def test_a_node_that_is_reserved_for_a_job_counts_as_in_use() -> None:
    async def story(case: Case) -> None:
        readings = HeldReadings(indexed(case.store), Idle())
        reservation = Reservation(nodes=(NodeId("n1"),), until=case.clock.now())
        job = a_job("j", on=("n0",), reservation=reservation)
        await case.write(nodes=[a_node("n0"), a_node("n1")], jobs=[job])
        assert list(readings.utilization([NodeId("n1")])) == [100.0]

    run(story)


def test_a_checkpoint_is_considered_with_the_next_look() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j", on=("n0",))])
        await case.loop.reconcile()
        looked_at = case.clock.now()
        await case.clock.sleep(5.0)
        job = case.store.fleet().jobs[JobName("j")]
        await case.write(jobs=[evolve(job, checkpointed_at=case.clock.now())])
        assert case.loop.due_at() == looked_at + LOOK_EVERY

    run(story)


def test_a_job_that_is_placed_and_interrupted_at_one_moment_is_placed_again() -> None:
    async def story(case: Case) -> None:
        await case.write(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j")])
        await case.loop.reconcile()
        assert await case.loop.reconcile() is None
        placed, now = case.store.fleet().jobs[JobName("j")], case.clock.now()
        assert placed.since == now
        await case.write(jobs=[placed.to(JobState.WAITING, at=now, reason="its program failed")])
        assert case.loop.due_at() == now
        await case.loop.reconcile()
        assert case.state("j") is JobState.PLACED

    run(story)
