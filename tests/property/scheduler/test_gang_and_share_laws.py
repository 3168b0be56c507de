"""Gangs are evicted completely and shared GPUs are never overbooked, on random clusters."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from navarch.scheduler.config import DEFAULT_PLUGINS, Parameters, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.framework.decision import DecisionLog
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import (
    Cluster,
    JobSpec,
    NodeSpec,
    PodSetSpec,
    QueueSpec,
    SubGroupSpec,
    TaskSpec,
)
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, ALLOCATED_MASK, TaskStatus
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask
from navarch.testing.scheduler_conformance.run import settle

RUNNING, LEAVING, WAITING = TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.PENDING
FULL = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
WHOLE = (ask(1), ask(1), ask(2), ask(2))
SHARED = (ask(0.5), ask(0.3), ask(0.7), ask(0.5, devices=2), ask(memory_mib=40))
SPREAD = tuple(
    PluginConfig(name="gpuspread") if plugin.name == "gpupack" else plugin
    for plugin in DEFAULT_PLUGINS
    if plugin.name != "gpusharingorder"
)


@dataclass(frozen=True)
class Taste:
    """The parameters of one family of clusters."""

    gpus: Sequence[int]
    requests: Sequence[Sequence[Request]]
    statuses: Sequence[TaskStatus]
    actions: Sequence[tuple[str, ...]]


GANGS = Taste(
    gpus=[2, 4, 8],
    requests=[WHOLE, WHOLE, (*WHOLE, ask(4), ask(cpu_milli=700)), (*WHOLE, *SHARED)],
    statuses=[RUNNING, RUNNING, RUNNING, WAITING, WAITING],
    actions=[FULL, ("reclaim",), ("reclaim",), ("preempt",), ("allocate", "reclaim")],
)
"""Nodes full of gangs, and gangs that wait for their GPUs."""

SHARES = Taste(
    gpus=[1, 2, 2, 4],
    requests=[SHARED, (*SHARED, ask(1))],
    statuses=[RUNNING, LEAVING, LEAVING, WAITING, WAITING],
    actions=[FULL, ("allocate",), ("allocate", "reclaim")],
)
"""Shared and whole GPUs that tasks are about to leave, and tasks that wait for a part of one."""


@dataclass
class World:
    """A generator of clusters."""

    chance: random.Random
    taste: Taste
    nodes: list[NodeSpec] = field(default_factory=list)
    idle: dict[str, int] = field(default_factory=dict)
    """Per node, the whole GPUs that no task has been drawn for."""
    cpu: dict[str, int] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    room: dict[tuple[str, str], int] = field(default_factory=dict)
    """Per node and shared GPU, the MiB that no task has been drawn for."""

    def draw(self) -> Cluster:
        choose = self.chance.choice
        for number in range(self.chance.randint(1, 4)):
            self.nodes.append(
                a_node(
                    f"n{number}",
                    choose(self.taste.gpus),
                    cpu_milli=choose([2000, 10**6, 10**6]),
                    pods=choose([4, 110, 110, 110]),
                    gpu_memory_mib=choose([100, 100, 200]),
                )
            )
        self.idle = {node.name: node.gpus for node in self.nodes}
        self.cpu = {node.name: node.cpu_milli for node in self.nodes}
        self.slots = {node.name: node.pods for node in self.nodes}
        requests = choose(self.taste.requests)
        jobs = [self._draw_job(f"j{i}", requests) for i in range(self.chance.randint(2, 9))]
        return a_cluster(nodes=self.nodes, queues=self._draw_queues(), jobs=jobs)

    def _draw_queues(self) -> list[QueueSpec]:
        """Return two queues; most running jobs are in the first, which has the smaller share."""
        quotas = {"a": [0, 1, 3], "b": [3, 6, 12]}
        return [
            a_queue(name, quota=self.chance.choice(quota), weight=self.chance.choice([0, 0, 1]))
            for name, quota in quotas.items()
        ]

    def _draw_job(self, name: str, requests: Sequence[Request]) -> JobSpec:
        choose = self.chance.choice
        status = choose(self.taste.statuses)
        request, size = choose(requests), self.chance.randint(1, 4)
        minimums = self._draw_minimums(size)
        job = a_job(
            name,
            queue=choose("abb" if status is WAITING else "aab"),
            tasks=size,
            request=request,
            priority=choose([50, 50, 50, 75, 75, 100]),
            age=self.chance.randint(0, 5),
            root=SubGroupSpec(
                pod_sets=tuple(
                    PodSetSpec(name=pod_set, min_available=minimum)
                    for pod_set, minimum in minimums.items()
                )
            ),
        )
        tasks = [
            replace(task, sub_group=list(minimums)[index % len(minimums)])
            for index, task in enumerate(job.tasks)
        ]
        if status is not WAITING:
            tasks = self._draw_places(tasks, self._draw_members(tasks, minimums), status)
        return replace(job, tasks=tuple(tasks))

    def _draw_members(self, tasks: list[TaskSpec], minimums: dict[str, int]) -> set[str]:
        """Return the tasks with a place: the minimum of every pod set, and some others."""
        members: set[str] = set()
        for name, minimum in minimums.items():
            pod_set = [task.uid for task in tasks if task.sub_group == name]
            members.update(self.chance.sample(pod_set, self.chance.randint(minimum, len(pod_set))))
        return members

    def _draw_minimums(self, size: int) -> dict[str, int]:
        """Return the minimums of one or two pod sets that the tasks alternate between."""
        if size == 1 or self.chance.random() < 0.8:
            return {"default": self.chance.choice([size, size, size, self.chance.randint(1, size)])}
        halves = {"even": (size + 1) // 2, "odd": size // 2}
        return {name: self.chance.randint(1, half) for name, half in halves.items()}

    def _draw_places(
        self, tasks: list[TaskSpec], members: set[str], status: TaskStatus
    ) -> list[TaskSpec]:
        """Return the tasks, with places for `members`; without any place if they do not fit."""
        books = (self.idle, self.cpu, self.slots, self.room)
        self.idle, self.cpu, self.slots = dict(self.idle), dict(self.cpu), dict(self.slots)
        self.room = dict(self.room)
        placed: list[TaskSpec] = []
        for task in tasks:
            if task.uid not in members:
                placed.append(task)
                continue
            place = self._draw_place(task.request, f"g-{task.uid}")
            if place is None:
                self.idle, self.cpu, self.slots, self.room = books
                return tasks
            node, groups = place
            placed.append(replace(task, status=status, node=node, gpu_groups=groups))
        return placed

    def _draw_place(self, request: Request, name: str) -> tuple[str, tuple[str, ...]] | None:
        for node in self.chance.sample(self.nodes, len(self.nodes)):
            here = node.name
            if self.cpu[here] < request.cpu_milli or not self.slots[here]:
                continue
            groups = self._draw_groups(request, node, name) if request.gpu.shared else []
            if groups is None or self.idle[here] < request.gpu.count:
                continue
            self.idle[here] -= request.gpu.count
            self.cpu[here] -= request.cpu_milli
            self.slots[here] -= 1
            return here, tuple(groups)
        return None

    def _draw_groups(self, request: Request, node: NodeSpec, name: str) -> list[str] | None:
        """Return shared GPUs with room for the request, opening new ones if there are too few."""
        memory = request.gpu.memory_on(node.gpu_memory_mib)
        groups = [g for (n, g), left in self.room.items() if n == node.name and left >= memory]
        opened = [f"{name}-{i}" for i in range(self.idle[node.name])]
        chosen = [*groups, *opened][: request.gpu.devices]
        if len(chosen) < request.gpu.devices:
            return None
        for group in chosen:
            if group in opened:
                self.idle[node.name] -= 1
                self.room[node.name, group] = node.gpu_memory_mib
            self.room[node.name, group] -= memory
        return chosen


def draw_config(chance: random.Random, taste: Taste) -> SchedulerConfig:
    return SchedulerConfig(
        actions=chance.choice(taste.actions),
        plugins=chance.choice([DEFAULT_PLUGINS, DEFAULT_PLUGINS, SPREAD]),
        parameters=Parameters(
            use_scheduling_signatures=False,
            victims_on_many_nodes=chance.random() < 0.25,
        ),
    )


def torn_gangs(session: Session) -> Iterator[str]:
    """Yield the jobs that gained or lost tasks and ended above zero but below their minimum."""
    for job in session.jobs.values():
        before = {t.uid for t in job.tasks.values() if t.spec.status & ACTIVE_ALLOCATED_MASK}
        after = {t.uid for t in job.tasks_in(ACTIVE_ALLOCATED_MASK)}
        short = any(s.active_allocated < s.min_available for s in job.pod_sets.values())
        if after and short and after != before:
            yield f"{job.name} had {sorted(before)}, has {sorted(after)}"


def overbooked(session: Session) -> Iterator[str]:
    """Yield the nodes on which tasks were bound to more than the idle resources.

    A task that is leaving or moving occupies its GPUs until the cycle is over.
    """
    whole: dict[str, int] = defaultdict(int)
    shares: dict[tuple[str, str], int] = defaultdict(int)
    bound: set[str] = set()
    for job in session.jobs.values():
        for task in job.tasks.values():
            node, groups = task.spec.node, task.spec.gpu_groups
            if not task.spec.status & (ALLOCATED_MASK | TaskStatus.RELEASING):
                if task.status is not TaskStatus.BINDING:
                    continue
                node, groups = task.node, task.gpu_groups
                bound.add(str(node))
            assert node is not None
            whole[node] += task.request.gpu.count
            for group in groups:
                memory = task.request.gpu.memory_on(session.nodes[node].gpu_memory_mib)
                shares[node, group] += memory
    for name in sorted(bound):
        node_now = session.nodes[name]
        if node_now.idle.gpu < 0 or node_now.idle.cpu < 0 or node_now.idle.pods < 0:
            yield f"{name} has given out more than it has: {node_now.idle.state()}"
        opened = {group: memory for (n, group), memory in shares.items() if n == name}
        if whole[name] + len(opened) > node_now.spec.gpus:
            yield f"{name} runs {whole[name]} whole and {len(opened)} shared GPUs"
        for group, memory in opened.items():
            if memory > node_now.gpu_memory_mib:
                yield f"GPU {group} of {name} runs {memory} MiB"


def cycles(seed: int, taste: Taste, rounds: int) -> Iterator[Session]:
    """Yield a session of each cycle on one cluster, with the fast and with the plain path.

    Some of the tasks that one cycle evicts are still leaving in the next.
    """
    chance = random.Random(seed)
    cluster, config = World(chance, taste).draw(), draw_config(chance, taste)
    plain = replace(config, parameters=replace(config.parameters, fast_paths=False))
    for _ in range(rounds):
        quick, slow = DecisionLog(), DecisionLog()
        session = run_session(cluster, config, sink=quick)
        yield session
        yield run_session(cluster, plain, sink=slow)
        assert quick.decisions == slow.decisions, f"seed {seed}"
        leaving = frozenset(name for name in session.jobs if chance.random() < 0.5)
        cluster = settle(session, leaving)


def check_gangs(seed: int, rounds: int) -> None:
    for session in cycles(seed, GANGS, rounds):
        assert list(torn_gangs(session)) == [], f"seed {seed}"


def check_shares(seed: int, rounds: int) -> None:
    for session in cycles(seed, SHARES, rounds):
        assert list(overbooked(session)) == [], f"seed {seed}"


@pytest.mark.parametrize("block", range(4))
def test_no_cycle_leaves_a_gang_below_its_minimum(block: int) -> None:
    for seed in range(block * 200, block * 200 + 200):
        check_gangs(seed, rounds=1)


@pytest.mark.parametrize("block", range(4))
def test_no_cycle_binds_more_than_the_idle_resources(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        check_shares(seed, rounds=2)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_no_cycle_leaves_a_gang_below_its_minimum_in_many_worlds(block: int) -> None:
    for seed in range(10_000 + block * 400, 10_400 + block * 400):
        check_gangs(seed, rounds=3)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_no_cycle_binds_more_than_the_idle_resources_in_many_worlds(block: int) -> None:
    for seed in range(10_000 + block * 400, 10_400 + block * 400):
        check_shares(seed, rounds=3)
