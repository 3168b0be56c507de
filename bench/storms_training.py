"""The training of a storm: one job on nearly all nodes, what it keeps, and what that cost it."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from bench.llama3 import serving
from navarch.core.ids import JobName, NodeId
from navarch.core.job import JobState
from navarch.ports.store import Committed
from navarch.sim.runner.jobs import SimulatedJobs
from navarch.sim.scenario.kinds import JobConfig
from navarch.sim.world.world import World

CHECKPOINT_EVERY_S, CHECKPOINT_TAKES_S = 600.0, 10.0
CYCLE_S = CHECKPOINT_EVERY_S + CHECKPOINT_TAKES_S
REQUEUE_S, RESTART_S = 30.0, 120.0
NAME = JobName("training")
FAULT, DEAD_START, REMOVAL = "faults", "starts on dead machines", "removed nodes"
"""The causes of interruptions."""
WAITING = "waiting for nodes"


@dataclass(slots=True, kw_only=True)
class Account:
    """What came of the job's time."""

    kept_s: float = 0.0
    interruptions: Counter[str] = field(default_factory=Counter)
    """By cause."""
    avoidable_s: defaultdict[str, float] = field(default_factory=partial(defaultdict, float))
    """The time that was lost for other reasons than faults."""


class Training(Protocol):
    """One job on all nodes but the spares: it restarts after each interruption."""

    account: Account
    requeue_s: float
    """How long it takes until an interrupted job may start again."""
    dead: set[NodeId]
    """Nodes on which no job can run."""

    @property
    def on(self) -> Collection[NodeId]:
        """The nodes that it runs or starts on; empty while it waits."""

    def hit(self, node: NodeId) -> None:
        """Interrupt the job if it runs on `node`, because of a fault."""

    async def run(self, *, ends_s: float) -> None:
        """Train until the end."""


class TrainingElsewhere:
    """A job of another scheduler, which starts on any nodes that take work.

    The moment a node is given up, the job ends without a checkpoint.
    """

    requeue_s = REQUEUE_S

    def __init__(self, world: World, tasks: int) -> None:
        self.account = Account()
        self.dead: set[NodeId] = set()
        self.on: set[NodeId] = set()
        self._world = world
        self._tasks = tasks
        self._ended_by = ""
        self._hit = asyncio.Event()
        world.store.subscribe(self._watch)

    async def run(self, *, ends_s: float) -> None:
        """Train until the end."""
        clock, account = self._world.clock, self.account
        while clock.monotonic() < ends_s:
            while len(free := serving(self._world)) < self._tasks:
                await clock.sleep(5.0)
                account.avoidable_s[WAITING] += 5.0
            self.on = set(free[: self._tasks])
            self._hit.clear()
            self._ended_by = ""
            await clock.sleep(RESTART_S)
            # A job with a dead machine among its nodes fails as soon as all of them should answer.
            ran_s = 0.0
            if not self.on & self.dead and not self._hit.is_set():
                began_s = clock.monotonic()
                await self._until_hit(ends_s)
                ran_s = clock.monotonic() - began_s
            account.kept_s += kept_s(ran_s)
            self.on = set()
            if clock.monotonic() < ends_s:
                self._note_end(ran_s)
                await clock.sleep(REQUEUE_S)

    def _note_end(self, ran_s: float) -> None:
        cause = self._ended_by or DEAD_START
        self.account.interruptions[cause] += 1
        if cause != FAULT:
            self.account.avoidable_s[cause] += REQUEUE_S + RESTART_S + ran_s % CYCLE_S

    async def _until_hit(self, ends_s: float) -> None:
        end = asyncio.get_running_loop().call_at(ends_s, self._hit.set)
        await self._hit.wait()
        end.cancel()

    def hit(self, node: NodeId, cause: str = FAULT) -> None:
        """Interrupt the job if it runs on `node`."""
        if node in self.on:
            self._ended_by = self._ended_by or cause
            self._hit.set()

    def _watch(self, committed: Committed) -> None:
        """Interrupt the job if one of its nodes is taken away."""
        for _, node in committed.moved:
            if node.retiring is not None or node.gone:
                self.hit(node.id, REMOVAL)


class OwnTraining:
    """A job that the product places, drains and starts again, as in production."""

    requeue_s = 0.0

    def __init__(self, world: World, tasks: int) -> None:
        assert isinstance(world.workloads, SimulatedJobs)
        self.account = Account()
        self.dead: set[NodeId] = set()
        self._world = world
        self._jobs = world.workloads
        self._config = JobConfig(
            name=NAME,
            tasks=tasks,
            duration=timedelta(days=10_000),
            checkpoint_every=timedelta(seconds=CHECKPOINT_EVERY_S),
            checkpoint_takes=timedelta(seconds=CHECKPOINT_TAKES_S),
            restart_takes=timedelta(seconds=RESTART_S),
        )
        self._jobs.fleet, self._jobs.call = world.fleet, world.call_jobs
        self._jobs.stops_work = self.dead.__contains__
        self._faults: set[tuple[NodeId, datetime]] = set()
        """The faults that hit the job, each with its time."""
        world.store.subscribe(self._jobs.watch)

    @property
    def on(self) -> Collection[NodeId]:
        """The nodes that it runs or starts on; empty while it waits."""
        job = self._world.fleet().jobs.get(NAME)
        return job.nodes if job is not None and job.state is JobState.PLACED else ()

    async def run(self, *, ends_s: float) -> None:
        """Train until the end."""
        clock = self._world.clock
        running = asyncio.create_task(self._jobs.run([self._config]))
        await clock.sleep(ends_s - clock.monotonic())
        progress = self._jobs.jobs[NAME]
        if progress.running:
            progress.stop(clock.now(), saved=False)
        running.cancel()
        self._settle(progress.kept_s, progress.waited_s)

    def hit(self, node: NodeId) -> None:
        """Interrupt the job if it runs on `node`."""
        self._faults.add((node, self._world.clock.now()))
        self._jobs.fail_on(node)

    def _settle(self, kept_s: float, waited_s: float) -> None:
        account = self.account
        account.kept_s = kept_s
        for each in self._jobs.interruptions:
            cause = DEAD_START if each.node in self.dead else REMOVAL
            account.interruptions[FAULT if (each.node, each.at) in self._faults else cause] += 1
        account.avoidable_s[WAITING] = waited_s
        account.avoidable_s[DEAD_START] = account.interruptions[DEAD_START] * RESTART_S
        # A job that is drained saves its work first.
        removal_s = RESTART_S + CHECKPOINT_TAKES_S
        account.avoidable_s[REMOVAL] = account.interruptions[REMOVAL] * removal_s


def kept_s(ran_s: float) -> float:
    """Return how much of a run is kept: the work before its last checkpoint."""
    return ran_s // CYCLE_S * CHECKPOINT_EVERY_S


def kept_at_best_s(
    faults_s: Sequence[float], ends_s: float, *, requeue_s: float = REQUEUE_S
) -> float:
    """Return the work that is kept if a job never waits for nodes, and only faults interrupt it."""
    kept, queued_until_s, ready_s = 0.0, 0.0, RESTART_S
    for at_s in [*faults_s, ends_s]:
        if at_s < queued_until_s:
            continue
        kept += kept_s(max(at_s - ready_s, 0.0))
        queued_until_s = at_s + requeue_s
        ready_s = queued_until_s + RESTART_S
    return kept
