"""The workload system: the product's scheduler places jobs, and machines that fail stop them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from navarch.autoscale.demand import Work
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.queue import Queue
from navarch.fleet.jobs.cluster import POOL, gang_spec, node_spec, queue_specs
from navarch.fleet.jobs.scheduling import own_config
from navarch.scheduler import Bind, Cluster, Evict, SchedulerConfig, decide
from navarch.scheduler.framework.decision import net_decisions
from navarch.scheduler.model.cluster import JobSpec, NodeSpec
from navarch.sim.jobs.job import Job, JobState
from navarch.sim.scenario.work import JobConfig
from navarch.sim.workloads import SimWorkloads

CYCLE_S = 5.0
"""The shortest time between two rounds of placing."""

FAILS_AFTER_S = 30.0
"""How long a job takes to find out that it was started on a broken machine."""

LARGE_TASKS = 64
"""From so many tasks on, a job that takes whole machines is placed without scoring each pair."""


@dataclass(slots=True)
class JobSystem(SimWorkloads):
    """Runs jobs on the nodes that the control plane has in service.

    It learns of trouble as such systems do: a node is cordoned or drained by the control
    plane's notice, a job dies with its machine.
    """

    fleet: Callable[[], Fleet] = Fleet
    broken: Callable[[NodeId], bool] = lambda _: False
    """Whether a program on that machine would end at once."""
    speed: Callable[[NodeId], float] = lambda _: 1.0
    """How fast that machine's slowest GPU works, as a share of what it should."""
    queues: Mapping[str, Queue] = field(default_factory=dict)
    config: SchedulerConfig = field(default_factory=own_config)
    """How jobs are placed: as the fleet's own are, unless somebody lists plugins."""
    jobs: dict[str, Job] = field(default_factory=dict)
    forced_load: dict[PoolName, float] = field(default_factory=dict)
    """How busy whole pools are said to be, whatever runs on them."""
    on_load: Callable[[Iterable[NodeId]], None] = lambda _: None
    """Hears of nodes whose load has changed, or is about to within this moment."""
    _waiting: dict[str, Job] = field(default_factory=dict)
    _tenants: dict[NodeId, list[Job]] | None = None
    """Whose tasks run on each node, one entry for each task, until something starts or stops."""
    _described: dict[NodeId, tuple[Node | None, NodeSpec]] = field(default_factory=dict)
    """Nodes as the scheduler was shown them last, beside what they were then; beside nothing where
    it depends on more than that."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: asyncio.TaskGroup | None = None

    # What the control plane asks

    async def drain(self, node: NodeId, reason: str) -> None:
        """Let jobs that can save their work leave; the others go on for as long as they may."""
        await SimWorkloads.drain(self, node, reason)
        for job in self._on(node):
            if job.config.checkpoint_every is not None:
                self._later(job, job.config.checkpoint_takes.total_seconds(), self._leave)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether no job runs on `node`."""
        await self._call("is_drained", node)
        return node in self.empty_at and not self._on(node)

    async def work(self, pool: PoolName) -> Sequence[Work]:
        """Return what runs on `pool` and what waits for it."""
        return [
            Work(
                gpus=job.config.gpus,
                parts=job.config.tasks,
                waiting=job.state is JobState.WAITING,
            )
            for job in self.jobs.values()
            if job.state is not JobState.FINISHED and self._pool_of(job) == pool
        ]

    def job_on(self, node: NodeId) -> str:
        """Return the job that has a node for itself; empty if none does, or several share it."""
        jobs = self._on(node)
        return jobs[0].name if len(jobs) == 1 else ""

    def load(self, node: NodeId) -> float:
        """Return how busy a node's GPUs are, in percent."""
        tasks = self._tasks_on(node)
        if not tasks and not self.forced_load:
            return 0.0
        known = self.fleet().nodes.get(node)
        if known is None:
            return 0.0
        if known.pool is not None and known.pool in self.forced_load:
            return self.forced_load[known.pool]
        busy = sum(job.config.gpus for job in tasks)
        return min(100.0 * busy / max(_gpus(known), 1), 100.0)

    # What the world does

    async def run(self, configs: Sequence[JobConfig]) -> None:
        """Take jobs in and place them, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for config in configs:
                tasks.create_task(self._submit(config))
            while True:
                await self._news.wait()
                self._news.clear()
                self._place()
                # What changes meanwhile is looked at together.
                await self.clock.sleep(CYCLE_S)

    def look(self) -> None:
        """Look again at what can be placed where, if anything waits to be placed."""
        if self._waiting:
            self._news.set()

    def struck(self, node: NodeId) -> None:
        """Stop what ran on a machine that has just failed or gone."""
        for job in self._on(node):
            self._stop(job, saved=False)
        self.look()

    def slowed(self, node: NodeId) -> None:
        """Have the jobs on a machine go as fast as they now can, together."""
        for job in self._on(node):
            pace = self._pace(job.nodes)
            if pace != job.pace:
                job.go_on_at(pace, self.clock.now())
                if not self._is_doomed(job.nodes):
                    self._finish_in_time(job)

    def force_load(self, pool: PoolName, percent: float) -> None:
        """Have a pool's nodes say that they are so busy, whatever runs on them."""
        self.forced_load[pool] = percent
        self.on_load(self.fleet().in_pool(pool))

    async def _submit(self, config: JobConfig) -> None:
        pause_s = config.every.total_seconds() if config.every else 0.0
        await self.clock.sleep(config.at.total_seconds())
        for number in range(config.count):
            if number and pause_s:
                await self.clock.sleep(pause_s)
            name = config.name if config.count == 1 else f"{config.name}-{number}"
            now = self.clock.now()
            job = Job(name=name, config=config, submitted=now, since=now)
            self.jobs[name] = self._waiting[name] = job
            self.look()

    def _place(self) -> None:
        if not self._waiting:
            return
        if len(self._waiting) == 1 and self._place_alone(*self._waiting.values()):
            return
        bound: dict[str, dict[str, NodeId]] = {}
        for decision in net_decisions(decide(self._cluster(), self.config)):
            if isinstance(decision, Bind):
                bound.setdefault(decision.job, {})[decision.task] = NodeId(decision.node)
            elif isinstance(decision, Evict):
                job = self.jobs[decision.job]
                if job.state is JobState.RUNNING:
                    self._stop(job, saved=False)
                    self.look()
        for name, nodes in bound.items():
            job = self.jobs[name]
            if len(nodes) == job.config.tasks and job.state is JobState.WAITING:
                self._start(job, nodes)

    def _place_alone(self, job: Job) -> bool:
        """Start a large job that competes with nobody on empty machines; return whether it fits.

        Every choice among empty machines of one size is as good as any other, so the scheduler,
        which would weigh each task against each machine, has nothing to decide.
        """
        if self.queues or job.config.tasks < LARGE_TASKS:
            return False
        used = {node for other in self.jobs.values() for node in other.nodes.values()}
        free = [
            node.id
            for node in self.fleet().nodes.values()
            if node.serving
            and node.registered_at is not None
            and node.id not in used
            and node.id not in self.cordoned
            and _gpus(node) == job.config.gpus
            and (job.config.pool is None or node.pool == job.config.pool)
        ]
        if len(free) < job.config.tasks:
            return False
        self._start(job, dict(zip(job.tasks, free, strict=False)))
        return True

    def _start(self, job: Job, nodes: dict[str, NodeId]) -> None:
        job.nodes = nodes
        del self._waiting[job.name]
        self._tenants = None
        self.on_load(nodes.values())
        job.start(self.clock.now(), self._pace(nodes))
        if self._is_doomed(nodes):
            takes_s = max(job.config.restart_takes.total_seconds(), FAILS_AFTER_S)
            self._later(job, takes_s, self._fail)
        else:
            self._finish_in_time(job)

    def _is_doomed(self, nodes: Mapping[str, NodeId]) -> bool:
        return any(self.broken(node) for node in nodes.values())

    def _pace(self, nodes: Mapping[str, NodeId]) -> float:
        """Return how fast a job on these machines is: each step waits for the slowest GPU."""
        return min(self.speed(node) for node in nodes.values())

    def _finish_in_time(self, job: Job) -> None:
        """End a job when its work is done, unless its pace changes before."""
        paces = job.paces

        def finish(job: Job) -> None:
            if job.paces == paces:
                self._finish(job)

        self._later(job, job.left_s(self.clock.now()), finish)

    def _later(self, job: Job, seconds: float, then: Callable[[Job], None]) -> None:
        attempt = job.attempt

        async def wait() -> None:
            await self.clock.sleep(seconds)
            if job.attempt == attempt and job.state is JobState.RUNNING:
                then(job)
                self.look()

        assert self._tasks is not None
        self._tasks.create_task(wait())

    def _finish(self, job: Job) -> None:
        self.on_load(job.nodes.values())
        self._tenants = None
        job.finish(self.clock.now())

    def _fail(self, job: Job) -> None:
        self._stop(job, saved=False)

    def _leave(self, job: Job) -> None:
        self._stop(job, saved=True)

    def _stop(self, job: Job, *, saved: bool) -> None:
        self.on_load(job.nodes.values())
        self._tenants = None
        job.stop(self.clock.now(), saved=saved)
        self._waiting[job.name] = job

    def _on(self, node: NodeId) -> list[Job]:
        """Return the jobs that run on a node, in the order in which they were submitted."""
        tasks = self._tasks_on(node)
        return list({job.name: job for job in tasks}.values()) if tasks else []

    def _tasks_on(self, node: NodeId) -> Sequence[Job]:
        """Return the jobs that run on a node, once for each of their tasks there."""
        if self._tenants is None:
            self._tenants = {}
            for job in self.jobs.values():
                for at in job.nodes.values():
                    self._tenants.setdefault(at, []).append(job)
        return self._tenants.get(node, ())

    def _pool_of(self, job: Job) -> PoolName | None:
        if job.config.pool is not None:
            return PoolName(job.config.pool)
        pools = sorted(
            (pool for pool in self.fleet().pools.values() if not pool.deleted),
            key=lambda pool: pool.name,
        )
        roomy = (pool.name for pool in pools if pool.offerings[0].gpus >= job.config.gpus)
        return next(roomy, None)

    # The cluster as the scheduler sees it

    def _cluster(self) -> Cluster:
        now = self.clock.now()
        described = self._described = self._describe()
        known = described.keys()
        alive = [job for job in self.jobs.values() if job.state is not JobState.FINISHED]
        return Cluster(
            now=now,
            nodes=tuple([spec for _, spec in described.values()]),
            queues=queue_specs(self.queues.values()),
            jobs=tuple(_job_spec(job, now) for job in alive if set(job.nodes.values()) <= known),
        )

    def _describe(self) -> dict[NodeId, tuple[Node | None, NodeSpec]]:
        """Return nodes as the scheduler sees them. Nearly all are what they were the last time."""
        used = {node for job in self.jobs.values() for node in job.nodes.values()}
        before = self._described
        for name in self.cordoned:
            before.pop(name, None)
        described: dict[NodeId, tuple[Node | None, NodeSpec]] = {}
        for node in self.fleet().nodes.values():
            known = before.get(node.id)
            if known is not None and known[0] is node:
                described[node.id] = known
            elif node.registered_at is not None and (node.serving or node.id in used):
                cordoned = node.id in self.cordoned
                stays = node.serving and not cordoned
                described[node.id] = node if stays else None, node_spec(node, cordoned=cordoned)
        return described


def _gpus(node: Node) -> int:
    return node.gpus if node.gpus is not None else node.place.gpus if node.place else 0


def _job_spec(job: Job, now: datetime) -> JobSpec:
    running = job.state is JobState.RUNNING
    return gang_spec(
        job.name,
        queue=job.config.queue,
        created_at=job.submitted,
        priority=job.config.priority,
        preemptible=job.config.preemptible,
        started_at=job.since if running else None,
        checkpointed_at=job.saved_at(now) if running else None,
        runtime=None,
        gpus=job.config.gpus,
        tasks={task: job.nodes.get(task) for task in job.tasks},
        selector={POOL: job.config.pool} if job.config.pool is not None else {},
    )
