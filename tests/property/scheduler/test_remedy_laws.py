"""Every remedy of an explanation lets the job start."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.core.event import Remedy, Step, StepKind
from navarch.scheduler.explain import why_job
from navarch.scheduler.model.cluster import Cluster, NodeHealth, NodeSpec, QueueSpec
from navarch.scheduler.model.quantity import UNLIMITED
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue

GPUS = 4
"""The GPUs that each task of the job requests."""


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Return a few nodes, some full, some cordoned, and one pending job."""
    nodes, jobs = [], []
    for number in range(draw(st.integers(1, 5))):
        name, gpus = f"n{number}", draw(st.sampled_from([2, 4, 8]))
        health = NodeHealth(cordoned=draw(st.booleans()))
        nodes.append(a_node(name, gpus, health=health))
        if taken := draw(st.integers(0, gpus)):
            queue = draw(st.sampled_from(["team", "others"]))
            jobs.append(a_job(f"on-{name}", gpus=taken, on=name, priority=125, queue=queue))
    tasks = draw(st.integers(1, 4))
    steady = draw(st.booleans())
    jobs.append(a_job("job", tasks=tasks, gpus=GPUS, queue="team", preemptible=not steady))
    bounds = st.one_of(st.just(UNLIMITED), st.integers(1, 16))
    team = a_queue("team", limit=draw(bounds), quota=draw(bounds))
    return a_cluster(nodes=nodes, jobs=jobs, queues=[team, a_queue("others")])


def after(cluster: Cluster, remedy: Remedy) -> Cluster:
    """Return the cluster after exactly the steps of a remedy."""
    for step in remedy.steps:
        cluster = _after(cluster, step)
    return cluster


def _after(cluster: Cluster, step: Step) -> Cluster:
    match step.kind:
        case StepKind.ADD_PLACES:
            more = [a_node(f"new{i}", GPUS) for i in range(step.count)]
            return replace(cluster, nodes=(*cluster.nodes, *more))
        case StepKind.FREE:
            assert step.lacks is not None
            node, gpus = step.lacks.node, int(step.lacks.gpus)
            return _nodes(cluster, [node], lambda spec: _larger(spec, gpus))
        case StepKind.LIFT_RULE:
            return _nodes(cluster, step.nodes, lambda spec: replace(spec, health=NodeHealth()))
        case StepKind.RAISE_BOUND:
            return replace(cluster, queues=tuple(_raised(queue, step) for queue in cluster.queues))
        case StepKind.WAIT_FOR_QUEUE:
            staying = [job for job in cluster.jobs if job.name == "job" or job.queue != step.queue]
            return replace(cluster, jobs=tuple(staying))
        case StepKind.MAKE_INTERRUPTIBLE:
            *others, job = cluster.jobs
            return replace(cluster, jobs=(*others, replace(job, preemptible=True)))
        case other:
            raise AssertionError(f"{other} does not help here")


def _nodes(
    cluster: Cluster, names: Sequence[str], change: Callable[[NodeSpec], NodeSpec]
) -> Cluster:
    changed = (change(node) if node.name in names else node for node in cluster.nodes)
    return replace(cluster, nodes=tuple(changed))


def _larger(node: NodeSpec, gpus: int) -> NodeSpec:
    return replace(node, gpus=node.gpus + gpus, gpu_count=node.gpu_count + gpus)


def _raised(queue: QueueSpec, step: Step) -> QueueSpec:
    if queue.name != step.queue:
        return queue
    raised = getattr(queue.gpu, step.bound) + step.amount
    return replace(queue, gpu=replace(queue.gpu, **{step.bound: raised}))


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_every_remedy_lets_a_pending_job_start(cluster: Cluster) -> None:
    explanation = why_job(cluster, None, "job")

    if explanation.state != "waiting":
        return
    assert explanation.remedies, explanation
    for remedy in explanation.remedies:
        found = why_job(after(cluster, remedy), None, "job")
        assert found.state == "started", (remedy, found.summary, found.reasons)
