"""Small made-up clusters, to try plugins on: in a test, in an example, at a prompt.

cluster = a_cluster(nodes={"a": 8, "b": 4}, jobs=[a_job("big", tasks=2, gpus=8)])
placed(run_cycle(cluster))
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from navarch.scheduler.cycle import CycleResult
from navarch.scheduler.framework.decision import Bind, Evict, Nominate
from navarch.scheduler.model.cluster import (
    Cluster,
    JobSpec,
    NodeSpec,
    PodSetSpec,
    QueueSpec,
    ResourceShare,
    SubGroupSpec,
    TaskSpec,
    TopologyConstraint,
)
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.model.request import GpuKind, GpuRequest, Request
from navarch.scheduler.model.status import TaskStatus

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
PLENTY: Final = 10**12

FREE: Final = ResourceShare(quota=UNLIMITED, limit=UNLIMITED, over_quota_weight=1)
"""No bound at all."""


def a_node(name: str, gpus: int = 8, **facts: Any) -> NodeSpec:  # noqa: ANN401
    """Return a node with `gpus` GPUs and plenty of everything else."""
    defaults: dict[str, Any] = {"cpu_milli": PLENTY, "memory_bytes": PLENTY, "gpu_count": gpus}
    return NodeSpec(name=name, gpus=gpus, **{**defaults, **facts})


def a_queue(
    name: str,
    *,
    quota: float = UNLIMITED,
    limit: float = UNLIMITED,
    weight: float = 1,
    parent: str | None = None,
    age: float = 0,
    **facts: Any,  # noqa: ANN401
) -> QueueSpec:
    """Return a queue with these shares of GPUs and no bound on anything else; age in minutes."""
    gpu = ResourceShare(quota=quota, limit=limit, over_quota_weight=weight)
    given: dict[str, Any] = {"cpu": FREE, "memory": FREE, "gpu": gpu, **facts}
    return QueueSpec(name=name, parent=parent, created_at=NOW - timedelta(minutes=age), **given)


def ask(
    gpus: float = 0,
    *,
    memory_mib: int = 0,
    devices: int = 1,
    mig: Mapping[str, int] | None = None,
    cpu_milli: int = 0,
    memory_bytes: int = 0,
    dra_gpus: int = 0,
) -> Request:
    """Return a request: whole GPUs, a fraction of one, GPU memory, or MIG slices."""
    if mig:
        gpu = GpuRequest(kind=GpuKind.MIG, mig=mig)
    elif memory_mib:
        gpu = GpuRequest(kind=GpuKind.MEMORY, memory_mib=memory_mib, devices=devices)
    elif gpus and gpus != int(gpus):
        gpu = GpuRequest(kind=GpuKind.FRACTION, fraction=gpus, devices=devices)
    else:
        gpu = GpuRequest(kind=GpuKind.WHOLE, count=int(gpus)) if gpus else GpuRequest()
    return Request(cpu_milli=cpu_milli, memory_bytes=memory_bytes, gpu=gpu, dra_gpus=dra_gpus)


def a_job(
    name: str,
    *,
    queue: str = "queue",
    tasks: int = 1,
    gpus: float = 1,
    request: Request | None = None,
    on: str | Sequence[str | None] | None = None,
    groups: Sequence[str] = (),
    minimum: int | None = None,
    age: float = 0,
    priority: int = 50,
    preemptible: bool | None = None,
    topology: TopologyConstraint | None = None,
    task: Mapping[str, Any] | None = None,
    **facts: Any,  # noqa: ANN401
) -> JobSpec:
    """Return a job of equal tasks, pending or, with `on`, running on these nodes; age in minutes.

    `task` gives further facts of every task, `groups` the shared GPUs of those that run.
    """
    nodes = [on] * tasks if on is None or isinstance(on, str) else list(on)
    specs = [
        TaskSpec(
            uid=f"{name}-{index}",
            node=node,
            request=request or ask(gpus),
            gpu_groups=tuple(groups) if node else (),
            **{
                "status": TaskStatus.RUNNING if node else TaskStatus.PENDING,
                **dict(task or {}),
            },
        )
        for index, node in enumerate(nodes)
    ]
    needed = len(specs) if minimum is None else minimum
    given: dict[str, Any] = {
        "root": SubGroupSpec(
            pod_sets=(PodSetSpec(name="default", min_available=needed),), topology=topology
        ),
        **facts,
    }
    return JobSpec(
        name=name,
        queue=queue,
        created_at=NOW - timedelta(minutes=age),
        priority=priority,
        preemptible=priority < 100 if preemptible is None else preemptible,
        tasks=tuple(specs),
        **given,
    )


def a_cluster(
    *,
    nodes: Mapping[str, int] | Iterable[NodeSpec],
    jobs: Iterable[JobSpec] = (),
    queues: Iterable[QueueSpec] | None = None,
    **facts: Any,  # noqa: ANN401
) -> Cluster:
    """Return a cluster; without queues there is one, called `queue`, that bounds nothing."""
    if isinstance(nodes, Mapping):
        nodes = [a_node(name, gpus) for name, gpus in nodes.items()]
    given: dict[str, Any] = {"now": NOW, **facts}
    return Cluster(
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        queues=tuple([a_queue("queue")] if queues is None else queues),
        **given,
    )


def placed(result: CycleResult) -> dict[str, str]:
    """Return where tasks were started, by task."""
    return {d.task: d.node for d in result.decisions if isinstance(d, Bind)}


def stopped(result: CycleResult) -> list[str]:
    """Return the tasks that were stopped, in order."""
    return [d.task for d in result.decisions if isinstance(d, Evict)]


def promised(result: CycleResult) -> dict[str, str]:
    """Return where places are kept for tasks, by task."""
    return {d.task: d.node for d in result.decisions if isinstance(d, Nominate)}
