"""Laws that every cycle keeps, on random clusters."""

import random
from dataclasses import replace
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.scheduler.actions.solver.room import GpuRoom
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import run_cycle, run_session
from navarch.scheduler.framework.decision import DecisionLog, Evict
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import Cluster, JobSpec, Topology, TopologyConstraint
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import ACTIVE_USED_MASK
from navarch.scheduler.plan import render_result
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot, load_snapshot
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask
from navarch.testing.scheduler_conformance.match import unexplained
from navarch.testing.scheduler_conformance.run import settle

T = TypeVar("T")

CONFIG = SchedulerConfig(parameters=Parameters(use_scheduling_signatures=False))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = [
        a_node(f"n{i}", draw(st.sampled_from([1, 2, 4])), labels={"rack": f"r{i % 2}"})
        for i in range(draw(st.integers(1, 4)))
    ]
    queues = [a_queue("top", quota=draw(st.sampled_from([-1, 2, 4])))]
    queues += [
        a_queue(
            name,
            parent="top",
            quota=draw(st.sampled_from([0, 1, 2])),
            limit=draw(st.sampled_from([-1, -1, 3])),
            weight=draw(st.sampled_from([0, 1, 2])),
            priority=draw(st.sampled_from([100, 100, 200])),
        )
        for name in ("p", "q")
    ]
    free = {node.name: node.gpus for node in nodes}
    jobs = [_job(draw, f"job{i}", free) for i in range(draw(st.integers(1, 7)))]
    return a_cluster(
        nodes=nodes,
        queues=queues,
        jobs=jobs,
        topologies=(Topology(name="t", levels=("rack",)),),
    )


def _job(draw: st.DrawFn, name: str, free: dict[str, int]) -> JobSpec:
    request: Request = draw(st.sampled_from([ask(1), ask(1), ask(2), ask(0.5), ask(0)]))
    tasks = draw(st.integers(1, 3))
    whole = request.gpu.count
    room = [n for n, left in sorted(free.items()) if whole and left >= whole * tasks]
    on = draw(st.sampled_from([None, *room]))
    if on is not None:
        free[on] -= whole * tasks
    return a_job(
        name,
        queue=draw(st.sampled_from(["p", "q"])),
        tasks=tasks,
        request=request,
        on=on,
        minimum=draw(st.integers(1, tasks)),
        priority=draw(st.sampled_from([50, 50, 75, 100])),
        age=draw(st.integers(0, 2)),
        topology=draw(
            st.sampled_from([None, None, TopologyConstraint(topology="t", required_level="rack")])
        ),
    )


def run(cluster: Cluster) -> tuple[Session, DecisionLog]:
    log = DecisionLog()
    return run_session(cluster, CONFIG, sink=log), log


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_no_node_is_overbooked(cluster: Cluster) -> None:
    session, _ = run(cluster)

    for node in session.nodes.values():
        assert node.idle.gpu >= 0
        assert node.idle.gpu + node.releasing.gpu >= 0
        assert all(g.promised_memory <= node.gpu_memory_mib for g in node.groups.values())


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_a_gang_is_never_started_in_part(cluster: Cluster) -> None:
    session, _ = run(cluster)

    for job in session.jobs.values():
        before = {t.uid: t.spec.status for t in job.tasks.values()}
        gained = [t for t in job.tasks.values() if t.placement.counts and before[t.uid] == 1]
        for pod_set in job.pod_sets.values():
            assert not gained or pod_set.count(ACTIVE_USED_MASK) >= pod_set.min_available


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_every_change_follows_from_decisions(cluster: Cluster) -> None:
    session, log = run(cluster)

    assert list(unexplained(session, log.decisions)) == []


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_only_preemptible_jobs_are_evicted(cluster: Cluster) -> None:
    session, log = run(cluster)

    for decision in log.decisions:
        if isinstance(decision, Evict) and decision.action != "stalegangeviction":
            assert session.jobs[decision.job].preemptible


@settings(max_examples=120, deadline=None)
@given(clusters())
def test_no_queue_exceeds_its_limit(cluster: Cluster) -> None:
    session, log = run(cluster)

    for queue in session.queues.by_name.values():
        has = session.get_queue_allocated_resources(queue)
        assert has is not None
        gained = any(
            session.jobs[d.job].queue == queue.name for d in log.decisions if hasattr(d, "node")
        )
        if gained and queue.limit.gpu >= 0 and not _was_above(cluster, queue.name, queue.limit.gpu):
            assert has.gpu <= queue.limit.gpu


def _was_above(cluster: Cluster, queue: str, limit: float) -> bool:
    used = sum(
        task.request.gpu.quota_on(100)
        for job in cluster.jobs
        if job.queue == queue
        for task in job.tasks
        if task.node
    )
    return used > limit


@settings(max_examples=80, deadline=None)
@given(clusters(), st.integers(0, 99))
def test_the_order_of_the_input_does_not_matter(cluster: Cluster, seed: int) -> None:
    shuffle = random.Random(seed)

    def mixed(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(shuffle.sample(items, len(items)))

    other = replace(
        cluster,
        nodes=mixed(cluster.nodes),
        queues=mixed(cluster.queues),
        jobs=mixed(tuple(replace(job, tasks=mixed(job.tasks)) for job in cluster.jobs)),
    )

    assert render_result(run_cycle(cluster)) == render_result(run_cycle(other))


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_a_replay_of_a_snapshot_decides_the_same(cluster: Cluster) -> None:
    text = dump_snapshot(Snapshot(cluster=cluster, config=CONFIG))
    loaded = load_snapshot(text)

    assert run_cycle(loaded.cluster, loaded.config) == run_cycle(cluster, CONFIG)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_repeated_cycles_reach_a_fixed_point(cluster: Cluster) -> None:
    """Without arrivals, jobs are not moved forever."""
    changes: list[int] = []
    for _ in range(8):
        session, log = run(cluster)
        changes.append(sum(type(d).__name__ in ("Evict", "Bind") for d in log.decisions))
        cluster = settle(session, frozenset())

    assert changes[-1] == 0


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_the_quick_check_for_room_never_rejects_a_placement(cluster: Cluster) -> None:
    session, _ = run(cluster)
    fresh, _ = run(replace(cluster, jobs=()))

    for job in session.jobs.values():
        placed = [task for task in job.tasks.values() if task.placement.counts]
        assert GpuRoom(placed, fresh).suffices()
