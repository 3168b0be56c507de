"""Clusters for scheduler benchmarks, and random clusters for comparing its engines."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from navarch.scheduler.config import DEFAULT_PLUGINS, Parameters, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.framework.decision import Decision
from navarch.scheduler.model.cluster import (
    Cluster,
    JobSpec,
    NodeHealth,
    NodeSpec,
    PodSetSpec,
    QueueSpec,
    SubGroupSpec,
    Taint,
    TaskSpec,
    Toleration,
)
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.request import GpuKind, GpuRequest, Request
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import NOW, a_queue

CPU_PER_GPU, MEMORY_PER_GPU = 12_000, 128 * 10**9
GIB = 2**30


def ask(gpus: int, *, cpu: int | None = None, memory: int | None = None) -> Request:
    """Return the resource request of a pod with `gpus` GPUs."""
    gpu = GpuRequest(kind=GpuKind.WHOLE, count=gpus) if gpus else GpuRequest()
    return Request(
        cpu_milli=(gpus * CPU_PER_GPU or 4_000) if cpu is None else cpu,
        memory_bytes=(gpus * MEMORY_PER_GPU or 16 * 10**9) if memory is None else memory,
        gpu=gpu,
    )


def nodes(count: int, **facts: object) -> list[NodeSpec]:
    """Return machines of eight GPUs."""
    return [
        NodeSpec(
            name=f"node-{i:05d}",
            cpu_milli=192_000,
            memory_bytes=2_000 * 10**9,
            gpus=8,
            gpu_count=8,
            labels={"zone": f"z{i * 8 // count}"},
            **facts,  # type: ignore[arg-type]
        )
        for i in range(count)
    ]


def gang(
    name: str,
    parts: Sequence[tuple[Request, int]],
    *,
    queue: str = "q0",
    age: float = 0,
    on: Sequence[str] | None = None,
    **facts: object,
) -> JobSpec:
    """Return a job with the given count of pods per request, pending or running on `on`."""
    task_facts = facts.pop("task", {})
    assert isinstance(task_facts, dict)
    tasks: list[TaskSpec] = []
    for request, count in parts:
        for _ in range(count):
            index = len(tasks)
            tasks.append(
                TaskSpec(
                    uid=f"{name}-{index:05d}",
                    request=request,
                    node=on[index] if on else None,
                    status=TaskStatus.RUNNING if on else TaskStatus.PENDING,
                    **task_facts,
                )
            )
    root = SubGroupSpec(pod_sets=(PodSetSpec(name="default", min_available=len(tasks)),))
    return JobSpec(
        name=name,
        queue=queue,
        created_at=NOW - timedelta(minutes=age),
        root=root,
        tasks=tuple(tasks),
        **facts,  # type: ignore[arg-type]
    )


def four_queues(quota: float = 0) -> tuple[QueueSpec, ...]:
    """Return four unlimited leaf queues under one parent."""
    return (a_queue("top"), *(a_queue(f"q{i}", parent="top", quota=quota) for i in range(4)))


def cluster_of(
    machines: Sequence[NodeSpec], jobs: Sequence[JobSpec], *, quota: float = 0
) -> Cluster:
    """Return a cluster with four queues."""
    queues = four_queues(quota)
    return Cluster(now=NOW, nodes=tuple(machines), jobs=tuple(jobs), queues=queues)


def one_class(count: int, pods: int, *, single: bool) -> Cluster:
    """Return a cluster of equal one-GPU pods: one gang, or jobs of one pod in four queues."""
    return cluster_of(nodes(count), _as_jobs([(ask(1), pods)], single=single))


def many_classes(count: int, pods: int, classes: int, *, single: bool) -> Cluster:
    """Return a cluster of many pod classes: one gang each, or interleaved jobs of one pod."""
    asks = [ask(1, cpu=6_000 + 250 * (k % 24), memory=(64 + k) * 10**9) for k in range(classes)]
    return cluster_of(nodes(count), _as_jobs([(a, pods // classes) for a in asks], single=single))


def whole_nodes(count: int, gangs: int, *, single: bool) -> Cluster:
    """Return gangs of four pods of eight GPUs; `single` puts them into four queues."""
    jobs = [
        gang(f"gang-{i:04d}", [(ask(8), 4)], queue=f"q{i % 4 if single else 0}")
        for i in range(gangs)
    ]
    return cluster_of(nodes(count), jobs)


def nearly_full(count: int, gangs: int, *, single: bool, seed: int = 7) -> Cluster:
    """Return a cluster that is 95 % full of running gangs, and gangs of 1 to 512 GPUs."""
    chance = random.Random(seed)
    machines = nodes(count)
    jobs = [*_running(machines, chance), *_waiting(gangs, chance, single=single)]
    return cluster_of(machines, jobs, quota=UNLIMITED)


def _running(machines: Sequence[NodeSpec], chance: random.Random) -> list[JobSpec]:
    """Return gangs of 64 pods that leave 2.5 % of GPUs free in whole nodes and 2.5 % scattered."""
    count = len(machines)
    order = [m.name for m in machines]
    chance.shuffle(order)
    idle, busy = order[: count // 40], order[count // 40 :]
    free = dict.fromkeys(busy, 0)
    for _ in range(count * 8 // 20 - len(idle) * 8):
        name = chance.choice(busy)
        if free[name] < 7:
            free[name] += 1
    by_size: dict[int, list[str]] = {}
    for name in busy:
        by_size.setdefault(8 - free[name], []).append(name)
    jobs = []
    for size, names in sorted(by_size.items()):
        for start in range(0, len(names), 64):
            part = names[start : start + 64]
            jobs.append(
                gang(
                    f"run-{size}-{start}",
                    [(ask(size), len(part))],
                    on=part,
                    last_start=NOW,
                    priority=125,
                    preemptible=False,
                )
            )
    return jobs


def _waiting(gangs: int, chance: random.Random, *, single: bool) -> list[JobSpec]:
    jobs = []
    for i in range(gangs):
        gpus = 2 ** chance.randrange(10)
        per = chance.choice([1, 2, 4, 8]) if gpus >= 8 else gpus
        zone = chance.choice([None, None, None, "z0", "z3"])
        parts = [(ask(per), gpus // per)]
        if gpus >= 64 and chance.random() < 0.3:
            parts.insert(0, (ask(0), 1))
        jobs.append(
            gang(
                f"gang-{i:04d}",
                parts,
                queue=f"q{i % 4 if single else 0}",
                age=gangs - i,
                task={"node_selector": {"zone": zone}} if zone else {},
                preemptible=False,
            )
        )
    return jobs


def _as_jobs(classes: Sequence[tuple[Request, int]], *, single: bool) -> list[JobSpec]:
    if not single:
        return [gang(f"class-{i:03d}", [part]) for i, part in enumerate(classes)]
    jobs: list[JobSpec] = []
    for number in range(max(count for _, count in classes)):
        for index, (request, count) in enumerate(classes):
            if number < count:
                i = len(jobs)
                jobs.append(gang(f"pod-{i:05d}-{index}", [(request, 1)], queue=f"q{i % 4}"))
    return jobs


def random_cluster(seed: int) -> Cluster:
    """Return a small cluster that covers every input to the placement of whole-GPU pods."""
    chance = random.Random(seed)
    machines = [_random_node(i, chance) for i in range(chance.randrange(2, 14))]
    jobs = _random_running(machines, chance)
    classes = [_random_class(chance) for _ in range(chance.randrange(1, 5))]
    for i in range(chance.randrange(1, 14)):
        parts = [
            (*chance.choice(classes), chance.choice([1, 1, 1, 2, 3, 8]))
            for _ in range(chance.choice([1, 1, 1, 2]))
        ]
        jobs.append(_random_gang(f"job-{i:02d}", parts, chance))
    return cluster_of(machines, jobs)


def _random_node(index: int, chance: random.Random) -> NodeSpec:
    gpus = chance.choice([0, 4, 8, 8, 8])
    return NodeSpec(
        name=f"n{index:02d}",
        cpu_milli=chance.choice([32_000, 192_000]),
        memory_bytes=chance.choice([256, 2_000]) * 10**9,
        gpus=gpus,
        gpu_count=gpus,
        pods=chance.choice([4, 110, 110]),
        labels={"zone": chance.choice("ab")},
        taints=(Taint(key="team", value="x"),) if chance.random() < 0.1 else (),
        health=NodeHealth(ready=chance.random() > 0.05, cordoned=chance.random() < 0.05),
    )


def _random_running(machines: Sequence[NodeSpec], chance: random.Random) -> list[JobSpec]:
    jobs = []
    for machine in machines:
        used = chance.choice([0, 0, 1, 3, machine.gpus])
        if used and used <= machine.gpus and machine.pods > 1:
            leaving = chance.random() < 0.2
            spec = gang(
                f"run-{machine.name}",
                [(ask(used, cpu=1_000, memory=10**9), 1)],
                on=[machine.name],
                queue=f"q{chance.randrange(4)}",
                task={},
            )
            if leaving:
                task = spec.tasks[0]
                tasks = (
                    TaskSpec(
                        uid=task.uid,
                        request=task.request,
                        node=task.node,
                        status=TaskStatus.RELEASING,
                    ),
                )
                spec = JobSpec(
                    name=spec.name,
                    queue=spec.queue,
                    created_at=spec.created_at,
                    root=spec.root,
                    tasks=tasks,
                )
            jobs.append(spec)
    return jobs


def _random_class(chance: random.Random) -> tuple[Request, dict[str, object]]:
    request = ask(
        chance.choice([0, 1, 1, 2, 3, 4, 8]),
        cpu=chance.choice([0, 4_000, 12_000, 50_000]),
        memory=chance.choice([0, 10**9, 300 * 10**9]),
    )
    facts: dict[str, object] = {}
    if chance.random() < 0.2:
        facts["node_selector"] = {"zone": chance.choice("ab")}
    if chance.random() < 0.2:
        facts["tolerations"] = (Toleration(key="team"),)
    if chance.random() < 0.1:
        facts["host_ports"] = (8080,)
    if chance.random() < 0.1:
        facts["nominated_node"] = f"n{chance.randrange(14):02d}"
    return request, facts


def _random_gang(
    name: str, parts: Sequence[tuple[Request, dict[str, object], int]], chance: random.Random
) -> JobSpec:
    tasks: list[TaskSpec] = []
    for request, facts, count in parts:
        for _ in range(count):
            tasks.append(TaskSpec(uid=f"{name}-{len(tasks):03d}", request=request, **facts))  # type: ignore[arg-type]
    minimum = len(tasks) if chance.random() < 0.8 else max(1, len(tasks) // 2)
    return JobSpec(
        name=name,
        queue=f"q{chance.randrange(4)}",
        created_at=NOW - timedelta(minutes=chance.randrange(5)),
        priority=chance.choice([50, 50, 75, 125]),
        preemptible=chance.random() < 0.7,
        root=SubGroupSpec(pod_sets=(PodSetSpec(name="default", min_available=minimum),)),
        tasks=tuple(tasks),
    )


def reclaim_large(count: int) -> Cluster:
    """Return `count` nodes full of one-GPU jobs, and a whole-node gang entitled to a tenth."""
    machines = [
        NodeSpec(
            name=f"node{i}",
            cpu_milli=20_000_000,
            memory_bytes=20 * 10**9,
            gpus=8,
            gpu_count=8,
        )
        for i in range(count)
    ]
    one = Request(cpu_milli=1_000, memory_bytes=10**9, gpu=GpuRequest(kind=GpuKind.WHOLE, count=1))
    eight = Request(
        cpu_milli=1_000, memory_bytes=10**9, gpu=GpuRequest(kind=GpuKind.WHOLE, count=8)
    )
    running = [
        gang(
            f"running-job-{i}",
            [(one, 1)],
            queue="queue-0",
            age=8 * count + 1 - i,
            on=[f"node{i % count}"],
        )
        for i in range(8 * count)
    ]
    large = gang("very-large-job", [(eight, count // 10)], queue="queue-1", age=1)
    queues = (
        a_queue("department"),
        a_queue("queue-0", parent="department", quota=0, weight=0),
        a_queue("queue-1", parent="department", quota=8 * count, weight=0),
    )
    return Cluster(now=NOW, nodes=tuple(machines), jobs=(*running, large), queues=queues)


def config_for(seed: int, *, fast: bool) -> SchedulerConfig:
    """Return the default plugins, with one of the four strategies."""
    strategies = {
        "gpu": ("binpack", "spread")[seed % 2],
        "cpu": ("binpack", "spread")[seed // 2 % 2],
    }
    plugins = tuple(
        PluginConfig(name=plugin.name, arguments=strategies)
        if plugin.name == "nodeplacement"
        else plugin
        for plugin in DEFAULT_PLUGINS
    )
    return replace(SchedulerConfig(plugins=plugins), parameters=Parameters(fast_paths=fast))


def decided(seed: int, *, fast: bool) -> tuple[Decision, ...]:
    """Return the decisions for the random cluster of a seed."""
    return run_cycle(random_cluster(seed), config_for(seed, fast=fast)).decisions
