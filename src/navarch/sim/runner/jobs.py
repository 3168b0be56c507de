"""The programs of a scenario's jobs: they work, save, fail and finish on the nodes they are given.

The control plane places jobs, as it does in production. This module does what a training
framework does around it: it submits jobs, runs programs where jobs are placed, and reports
checkpoints, failures and completion to the job service.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from navarch.core.errors import NavarchError, NotFoundError, NotPossibleError
from navarch.core.fleet import Fleet
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import Job, JobState
from navarch.ports.api import JobApi, JobRequest
from navarch.ports.store import Committed
from navarch.sim.figures.interruptions import Interruption
from navarch.sim.runner.job_progress import JobProgress
from navarch.sim.runner.outcome import Verdict
from navarch.sim.scenario.kinds import JobConfig
from navarch.sim.world.effects import SimWorkloads

FAILS_AFTER_S = 30.0
"""How long a program runs on a broken machine before it fails."""

JobCall = Callable[[JobApi], Awaitable[object]]


@dataclass(slots=True)
class SimulatedJobs(SimWorkloads):
    """Runs the programs of placed jobs, and notifies the job service of their fate."""

    call: Callable[[JobCall], Awaitable[object]] | None = None
    """Makes a request to the job service, again and again until the control plane answers."""
    fleet: Callable[[], Fleet] = Fleet
    stops_work: Callable[[NodeId], bool] = lambda _: False
    """Whether a program on that machine fails."""
    speed: Callable[[NodeId], float] = lambda _: 1.0
    """The speed of that machine's slowest GPU, as a share of the nominal speed."""
    jobs: dict[JobName, JobProgress] = field(default_factory=dict)
    interruptions: list[Interruption] = field(default_factory=list)
    rejected: list[Verdict] = field(default_factory=list)
    """Jobs that the job service did not accept."""
    forced_load: dict[PoolName, float] = field(default_factory=dict)
    """Utilization that whole pools report, whatever runs on them."""
    on_load: Callable[[Iterable[NodeId]], None] = lambda _: None
    """Called with nodes at the moment their load changes."""
    _programs: dict[NodeId, list[JobProgress]] | None = None
    """The running jobs of each node, one entry per task, until a program starts or stops."""
    _tasks: asyncio.TaskGroup | None = None

    # The workload system, as the control plane sees it

    async def drain(self, node: NodeId, reason: str) -> None:
        """Let jobs with checkpoints save their work and leave; the others keep running."""
        await SimWorkloads.drain(self, node, reason)
        for job in self._on(node):
            if job.config.checkpoint_every is not None:
                leave = partial(self._leave, node=node)
                self._later(job, job.config.checkpoint_takes.total_seconds(), leave)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether `node` was drained; the control plane itself looks for jobs on it."""
        await self._call("is_drained", node)
        return node in self.empty_at

    # What agents read

    def job_on(self, node: NodeId) -> str:
        """Return the job that has a node for itself; empty if there is none or several."""
        jobs = self._on(node)
        return jobs[0].name if len(jobs) == 1 else ""

    def load(self, node: NodeId) -> float:
        """Return the utilization of a node's GPUs, in percent."""
        programs = self._programs_on(node)
        if not programs and not self.forced_load:
            return 0.0
        known = self.fleet().nodes.get(node)
        if known is None:
            return 0.0
        if known.pool is not None and known.pool in self.forced_load:
            return self.forced_load[known.pool]
        gpus = known.gpus
        if gpus is None:
            gpus = known.place.gpus if known.place else 0
        busy = sum(job.config.gpus for job in programs)
        return min(100.0 * busy / max(gpus, 1), 100.0)

    # What happens to programs

    async def run(self, configs: Sequence[JobConfig]) -> None:
        """Submit jobs in their time, and run programs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for config in configs:
                tasks.create_task(self._submit(config))
            await asyncio.get_running_loop().create_future()

    def watch(self, committed: Committed) -> None:
        """Start programs where jobs are placed, and stop those of jobs that wait again."""
        for job in committed.change.jobs:
            progress = self.jobs.get(job.name)
            if progress is None:
                continue
            if job.state is JobState.PLACED and progress.finished is not None:
                # It was interrupted before its completion was recorded.
                self._report(partial(_finish, job.name))
            elif job.state is JobState.PLACED and progress.placement != _placement(job):
                self._start(progress, job)
            elif job.state is JobState.WAITING and progress.running:
                self._stop(progress, self._leaving(progress.nodes), saved=False)

    def fail_on(self, node: NodeId) -> None:
        """Fail the programs on a machine that has just broken or gone."""
        for job in self._on(node):
            self._fail(job, node, f"its program on {node} failed")

    def change_pace_on(self, node: NodeId) -> None:
        """Run the jobs on a machine at the pace that its GPUs now allow."""
        for job in self._on(node):
            # Each step takes the slowest GPU's time.
            pace = min(map(self.speed, job.nodes))
            if pace != job.pace:
                job.go_on_at(pace, self.clock.now())
                if not self._is_doomed(job.nodes):
                    self._work(job)

    def force_load(self, pool: PoolName, percent: float) -> None:
        """Report this utilization for a pool's nodes, whatever runs on them."""
        self.forced_load[pool] = percent
        self.on_load(self.fleet().in_pool(pool))

    async def _submit(self, config: JobConfig) -> None:
        pause_s = config.every.total_seconds() if config.every else 0.0
        await self.clock.sleep(config.at.total_seconds())
        for number in range(config.count):
            if number and pause_s:
                await self.clock.sleep(pause_s)
            name = JobName(config.name if config.count == 1 else f"{config.name}-{number}")
            self.jobs[name] = JobProgress(name=name, config=config, submitted=self.clock.now())
            request = JobRequest(
                name=name,
                tasks=config.tasks,
                gpus=config.gpus,
                queue=config.queue,
                pool=PoolName(config.pool) if config.pool is not None else None,
                priority=config.priority,
                preemptible=config.preemptible,
            )
            self._spawn(self._submit_one(request))

    async def _submit_one(self, request: JobRequest) -> None:
        try:
            assert self.call is not None
            await self.call(lambda api: api.submit_job(request))
        except NavarchError as error:
            what = f"job {request.name} is accepted"
            self.rejected.append(Verdict(what=what, holds=False, reason=str(error)))

    def _start(self, progress: JobProgress, job: Job) -> None:
        self._changed(job.nodes)
        progress.placement = _placement(job)
        progress.start(job.since, job.nodes, min(map(self.speed, job.nodes)))
        broken = next(filter(self.stops_work, job.nodes), None)
        if broken is not None:
            takes_s = max(progress.config.restart_takes.total_seconds(), FAILS_AFTER_S)
            fail = partial(self._fail, node=broken, reason="its program failed on a broken machine")
            self._later(progress, takes_s, fail)
        else:
            self._work(progress)

    def _work(self, job: JobProgress) -> None:
        """Save and finish in time, unless the pace changes before."""
        self._spawn(self._save(job))
        paces = job.paces

        def finish(job: JobProgress) -> None:
            if job.paces == paces:
                self._changed(job.nodes)
                job.finish(self.clock.now())
                self._report(partial(_finish, job.name))

        self._later(job, job.left_s(self.clock.now()), finish)

    async def _save(self, job: JobProgress) -> None:
        """Report every checkpoint of this run, unless the pace changes before."""
        run = job.attempt, job.paces
        number = job.next_save(self.clock.now())
        while (wait_s := job.save_in_s(number, self.clock.now())) is not None:
            await self.clock.sleep(wait_s)
            if (job.attempt, job.paces) != run:
                return
            self._report(lambda api: api.checkpoint_job(job.name))
            number += 1

    def _fail(self, job: JobProgress, node: NodeId, reason: str) -> None:
        placed_at = job.since
        self._stop(job, node, saved=False)
        self._report(
            lambda api: api.requeue_job(job.name, reason=reason, placed_at=placed_at, node=node)
        )

    def _leave(self, job: JobProgress, node: NodeId) -> None:
        placed_at = job.since
        self._stop(job, node, saved=True)

        async def leave(api: JobApi) -> None:
            await api.checkpoint_job(job.name)
            why = "it has saved its work and left a node that is drained"
            await api.requeue_job(job.name, reason=why, placed_at=placed_at)

        self._report(leave)

    def _stop(self, job: JobProgress, node: NodeId | None, *, saved: bool) -> None:
        """Interrupt a job because of a node, or for another job."""
        self._changed(job.nodes)
        now = self.clock.now()
        job.stop(now, saved=saved)
        self.interruptions.append(Interruption(job=job.name, at=now, node=node))

    def _is_doomed(self, nodes: Iterable[NodeId]) -> bool:
        return any(self.stops_work(node) for node in nodes)

    def _leaving(self, nodes: Iterable[NodeId]) -> NodeId | None:
        """Return the first of the nodes that takes no work any more; None if all do."""
        known = self.fleet().nodes
        return next((x for x in nodes if x not in known or not known[x].serving), None)

    def _later(self, job: JobProgress, seconds: float, then: Callable[[JobProgress], None]) -> None:
        """Call `then` after a while, unless this run of the job is over by then."""
        attempt = job.attempt

        async def wait() -> None:
            await self.clock.sleep(seconds)
            if job.attempt == attempt and job.running:
                then(job)

        self._spawn(wait())

    def _report(self, call: JobCall) -> None:
        """Notify the job service. A job that has moved on meanwhile needs no notice."""

        async def report() -> None:
            with suppress(NotPossibleError, NotFoundError):
                assert self.call is not None
                await self.call(call)

        self._spawn(report())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        self._tasks.create_task(work)

    def _changed(self, nodes: Iterable[NodeId]) -> None:
        self.on_load(nodes)
        self._programs = None

    def _on(self, node: NodeId) -> list[JobProgress]:
        """Return the jobs with a program on a node, in order of submission."""
        return list({job.name: job for job in self._programs_on(node)}.values())

    def _programs_on(self, node: NodeId) -> Sequence[JobProgress]:
        """Return the jobs with a program on a node, once for each of their tasks there."""
        if self._programs is None:
            self._programs = {}
            for job in self.jobs.values():
                for at in job.nodes:
                    self._programs.setdefault(at, []).append(job)
        return self._programs.get(node, ())


async def _finish(name: JobName, api: JobApi) -> None:
    await api.finish_job(name)


def _placement(job: Job) -> tuple[datetime, int]:
    """Return the identity of a placement."""
    return job.since, job.interruptions
