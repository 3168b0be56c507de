"""The caches of victim searches equal what a full scan of jobs and nodes finds."""

import random
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from bench.scheduler_workloads import random_cluster

from navarch.core.errors import InvariantError
from navarch.scheduler import Session, open_session
from navarch.scheduler.actions.solver.room import GpuRoom
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.engine.incremental_index import IncrementalIndex
from navarch.scheduler.engine.no_op_moves import while_leaving
from navarch.scheduler.engine.vector_placer import VectorPlacer
from navarch.scheduler.framework.hooks import EventHandler
from navarch.scheduler.framework.job_queue import JobIndex
from navarch.scheduler.framework.node_table import amounts_of
from navarch.scheduler.framework.statement import Statement
from navarch.scheduler.model.cluster import AffinityTerm, ClaimUse, Cluster, TaskSpec, Toleration
from navarch.scheduler.model.fit import Fit
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, TaskStatus
from navarch.scheduler.model.task_kinds import end_of_equals
from navarch.scheduler.worlds import a_cluster, a_job, a_queue

SEEDS = range(40)
SMALL_NODES = [f"small-{number}" for number in range(6)]
CHECKED = SchedulerConfig(parameters=Parameters(check_fast_paths=True))


def running(session: Session) -> list[Task]:
    return [
        task
        for job in session.jobs.values()
        for task in job.tasks.values()
        if task.status & ACTIVE_ALLOCATED_MASK
    ]


def vectors(session: Session) -> VectorPlacer:
    assert isinstance(session.placer, VectorPlacer)
    return session.placer


def kept(index: JobIndex) -> IncrementalIndex:
    assert isinstance(index, IncrementalIndex)
    return index


def best_node(session: Session, task: Task, job: Job, nodes: Sequence[Node]) -> Node | None:
    """Return the node of a task without shared GPUs, calling the hooks for each node."""
    if session.pre_predicate(task, job) is not None:
        return None
    for _, node in session.score_nodes(task, nodes):
        if session.fit(task, job, node) is not Fit.NO:
            return node
    return None


def shake(session: Session, statement: Statement, chance: random.Random) -> None:
    """Evict a task, nominate a task, or roll everything back."""
    tasks = running(session)
    if tasks and chance.random() < 0.6:
        statement.evict(chance.choice(tasks), "shaken")
    elif chance.random() < 0.7:
        waiting = [
            task
            for job in session.jobs.values()
            for task in job.tasks.values()
            if task.status is TaskStatus.PENDING and not task.request.gpu.shared
        ]
        places = [
            (t, n) for t in waiting for n in session.node_list if n.fits_eventually(t.request)
        ]
        if places:
            statement.pipeline(*chance.choice(places))
    else:
        statement.discard()


def expected_leaves(session: Session, jobs: Sequence[Job]) -> dict[str, list[str]]:
    key = session.job_key()
    assert key is not None
    leaves: dict[str, list[str]] = {}
    for job in sorted(jobs, key=key):
        leaves.setdefault(job.queue, []).append(job.name)
    return leaves


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_index_holds_the_jobs_that_a_full_scan_finds(seed: int) -> None:
    session = open_session(random_cluster(seed))
    chance = random.Random(seed)
    key = session.job_key()
    assert key is not None

    with session.attempt("test") as statement:
        for _ in range(12):
            shake(session, statement, chance)
            for index in (session.waiting, session.interruptible):
                if chance.random() < 0.5:
                    assert list(index.jobs) == list(fresh(session, index).jobs)
                jobs = fresh(session, index).jobs
                found = {
                    name: [job.name for _, _, job in entries]
                    for name, entries in kept(index).leaves(key).items()
                    if entries
                }
                assert found == expected_leaves(session, jobs)


def fresh(session: Session, index: JobIndex) -> JobIndex:
    return JobIndex(session, index._holds)


def test_jobs_that_an_index_returned_do_not_change() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("first", on=["a"]), a_job("second", on=["a"])])
    session = open_session(cluster)
    key = session.job_key()
    assert key is not None
    jobs, leaves = session.interruptible.jobs, kept(session.interruptible).leaves(key)
    entries = leaves["queue"]

    with session.attempt("test") as statement:
        statement.evict(next(iter(session.jobs["first"].tasks.values())), "gone")
        assert [job.name for job in session.interruptible.jobs] == ["second"]
        assert len(kept(session.interruptible).leaves(key)["queue"]) == 1

    assert [job.name for job in jobs] == ["first", "second"]
    assert len(entries) == 2


@pytest.mark.parametrize("victims", [False, True], ids=["served", "taken from"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_queue_from_an_index_equals_a_queue_of_its_jobs(seed: int, *, victims: bool) -> None:
    session = open_session(random_cluster(seed))
    index = session.interruptible if victims else session.waiting
    wanted = {job.name for job in index.jobs if hash_of(job) % 4}

    kept = session.placer.queue_from(index, lambda job: job.name in wanted, victims=victims)
    plain = session.placer.queue([job for job in index.jobs if job.name in wanted], victims=victims)

    chance = random.Random(seed)
    while (job := plain.pop()) is not None:
        assert kept.pop() is job
        if len(job.tasks) > 1 and chance.random() < 0.5:
            view = job.view_of(list(job.tasks.values())[1:])
            plain.push(view)
            kept.push(view)
    assert kept.pop() is None


def hash_of(job: Job) -> int:
    return sum(map(ord, job.name))


@pytest.mark.parametrize("seed", SEEDS)
def test_dropping_unwanted_jobs_keeps_the_order_of_the_others(seed: int) -> None:
    session = open_session(random_cluster(seed))
    wanted = [job for job in session.waiting.jobs if hash_of(job) % 3 == 0]

    one_by_one = session.placer.queue(session.waiting.jobs)
    dropping = session.placer.queue_from(session.waiting, lambda _: True)

    expected = [job for job in iter(one_by_one.pop, None) if job in wanted]
    assert list(iter(lambda: dropping.pop_one_of(wanted), None)) == expected


def departments(
    seed: int, *, sizes: Sequence[float], places: Sequence[str | None] = ("node", None, None)
) -> Cluster:
    """Return pending and running jobs in a few parent queues with a few children each."""
    chance = random.Random(seed)
    queues, leaves = [], []
    for top in range(chance.choice((1, 2, 2, 3))):
        name = f"department-{top}"
        queues.append(a_queue(name, quota=chance.choice((2, 4)), priority=chance.choice((1, 1, 2))))
        below = [f"{name}-{index}" for index in range(chance.choice((0, 1, 2, 2)))]
        queues += [a_queue(leaf, parent=name, quota=chance.choice((1, 2))) for leaf in below]
        leaves += below or [name]
    jobs = [
        a_job(
            f"job-{number:02}",
            queue=chance.choice(leaves),
            gpus=chance.choice(sizes),
            on=chance.choice(places),
            age=chance.randrange(4),
        )
        for number in range(24)
    ]
    nodes = {"node": 16, "spare": 8} | dict.fromkeys(SMALL_NODES, 4)
    return a_cluster(nodes=nodes, jobs=jobs, queues=queues)


def known_orders(cluster: Cluster, seed: int) -> list[bool]:
    """Compare pairs of jobs; return for each whether the order was known."""
    session = open_session(cluster)
    chance = random.Random(seed)
    known = []
    with session.attempt("test") as statement:
        for _ in range(8):
            shake(session, statement, chance)
            if len(session.waiting.jobs) < 2:
                continue
            pair = chance.sample(session.waiting.jobs, 2)
            served = session.placer.queue(session.waiting.jobs).pop_one_of(pair)
            first = vectors(session).serving_order.first(*pair)
            assert first in (None, served)
            known.append(first is not None)
    return known


@pytest.mark.parametrize("seed", SEEDS)
def test_the_job_that_comes_first_of_two_is_served_first(seed: int) -> None:
    known_orders(departments(seed, sizes=(1, 1, 1, 1, 2)), seed)
    known_orders(random_cluster(seed), seed)


def test_the_order_of_two_jobs_needs_no_others_if_all_weights_are_equal() -> None:
    known = [each for seed in SEEDS for each in known_orders(departments(seed, sizes=(1,)), seed)]
    assert sum(known) > 0.8 * len(known)


@pytest.mark.parametrize(
    "pair", [("paper", "rock"), ("paper", "scissors"), ("rock", "scissors")], ids=" and ".join
)
def test_a_third_queue_of_equal_rank_may_decide_the_order_of_two_jobs(
    pair: tuple[str, str],
) -> None:
    beats = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    names = ["paper", "rock", "scissors"]
    jobs = [a_job(name, queue=name) for name in names]
    cluster = a_cluster(nodes={"a": 8}, jobs=jobs, queues=[a_queue(n) for n in names])
    session = open_session(cluster, SchedulerConfig(plugins=()))
    session.add_queue_order_fn(
        lambda left, right, *_: -1 if (left.name, right.name) in beats else 1,
        rank=lambda _queue, _job: 0,
        weight=lambda _job: 0,
    )
    two = [session.jobs[name] for name in pair]

    served = session.placer.queue(session.waiting.jobs).pop_one_of(two)

    assert vectors(session).serving_order.first(*two) in (None, served)


@pytest.mark.parametrize("seed", SEEDS)
def test_queues_lose_jobs_in_the_order_of_pairwise_comparison(seed: int) -> None:
    session = open_session(departments(seed, sizes=(1, 1, 2)), CHECKED)
    chance = random.Random(seed)
    with session.attempt("test") as statement:
        for _ in range(8):
            shake(session, statement, chance)
            queue = session.placer.queue_from(session.interruptible, lambda _: True, victims=True)
            for _ in range(chance.randrange(1, 6)):
                queue.pop()  # raises on a difference


def test_a_checked_run_catches_a_loss_rank_that_contradicts_the_order() -> None:
    jobs = [a_job("left", queue="a", on="node"), a_job("right", queue="b", on="node")]
    cluster = a_cluster(nodes={"node": 8}, jobs=jobs, queues=[a_queue("a"), a_queue("b")])
    session = open_session(cluster, replace(CHECKED, plugins=()))
    session.add_queue_order_fn(
        lambda left, right, *_: -1 if left.name < right.name else 1,
        loss_rank=lambda queue, _taken: -ord(queue.name),
    )
    queue = session.placer.queue(session.interruptible.jobs, victims=True)
    with pytest.raises(InvariantError, match="the next job is"):
        queue.pop()


def simulated_return(session: Session, part: Job, task: Task) -> bool:
    """Return whether a simulation places a task that left for `part` back where it was."""
    before = task.placement
    with session.attempt("simulation") as statement:
        statement.evict(task, "to see")
        others = [job for job in session.waiting.jobs if job not in (part, task.job)]
        queue = session.placer.queue([*others, part, task.job])
        if queue.pop_one_of([part, task.job]) is not task.job:
            return False
        session.place_job(statement, task.job, session.node_list, real=False)
        return task.placement is before


def predicted_returns(cluster: Cluster, seed: int) -> list[bool]:
    """Simulate the return of many tasks; for those that return, report whether it was predicted."""
    session = open_session(cluster)
    chance = random.Random(seed)
    known = []
    with session.attempt("test") as statement:
        for _ in range(6):
            shake(session, statement, chance)
            for part in session.waiting.jobs[:6]:
                for task in [t for t in running(session) if t.job.size == 1 and t.job is not part]:
                    state = session.state()
                    returns = vectors(session).no_op_moves.goes_straight_back(part, [task])
                    assert session.state() == state
                    simulated = simulated_return(session, part, task)
                    assert simulated or not returns
                    known += [returns] if simulated else []
    return known


@pytest.mark.parametrize("seed", SEEDS)
def test_a_predicted_no_op_move_is_one_in_a_simulation(seed: int) -> None:
    predicted_returns(departments(seed, sizes=(1, 1, 1, 1, 2), places=[*SMALL_NODES, None]), seed)
    predicted_returns(random_cluster(seed), seed)


def test_most_no_op_moves_are_predicted_without_a_simulation() -> None:
    places = [*SMALL_NODES, *[None] * 3]
    clusters = [departments(seed, sizes=(1,), places=places) for seed in SEEDS]
    known = [each for seed in SEEDS for each in predicted_returns(clusters[seed], seed)]
    assert sum(known) > 0.5 * len(known)


def test_no_return_is_predicted_for_a_task_that_a_limit_may_exclude() -> None:
    jobs = [a_job("runs", queue="full", on="node"), a_job("waits", queue="other")]
    queues = [a_queue("full", limit=1), a_queue("other")]
    session = open_session(a_cluster(nodes={"node": 4}, jobs=jobs, queues=queues))
    task = next(iter(session.jobs["runs"].tasks.values()))
    assert not vectors(session).no_op_moves.goes_straight_back(session.jobs["waits"], [task])


@pytest.mark.parametrize("failing", ["question", "handler"])
def test_a_task_that_left_for_a_trial_is_restored_even_after_an_error(failing: str) -> None:
    cluster = a_cluster(nodes={"node": 8}, jobs=[a_job("runs", gpus=2, on="node")])
    session = open_session(cluster)
    events: list[str] = []

    def fail(_event: object = None) -> None:
        raise RuntimeError(failing)

    session.add_event_handler(
        EventHandler(
            allocate_fn=lambda _: events.append("back"),
            deallocate_fn=lambda _: events.append("gone"),
        )
    )
    if failing == "handler":
        session.add_event_handler(EventHandler(deallocate_fn=fail))
    task = next(iter(session.jobs["runs"].tasks.values()))
    queue = session.queues.by_name["queue"]
    state, has = session.state(), session.get_queue_allocated_resources(queue)

    with pytest.raises(RuntimeError, match=failing):
        while_leaving(session, task, fail)

    assert session.state() == state
    assert session.get_queue_allocated_resources(queue) == has
    assert events == ["gone", "back"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_of_some_nodes_equals_that_of_scoring_each(seed: int) -> None:
    session = open_session(random_cluster(seed))
    chance = random.Random(seed)
    with session.attempt("test") as statement:
        for _ in range(8):
            shake(session, statement, chance)
            nodes = chance.sample(list(session.node_list), len(session.node_list) // 2 + 1)
            for job in session.waiting.jobs:
                task = next(iter(job.tasks.values()))
                finder = vectors(session).finder
                ranking = finder.ranking(finder.kind(task), [task], job)
                # Queue limits are checked before nodes.
                allowed = session.is_job_over_capacity(job, [task]).schedulable
                if ranking is None or not allowed or session.pre_predicate(task, job) is not None:
                    continue
                found = vectors(session).finder.best_among(ranking, nodes)
                assert found is best_node(session, task, job, nodes)


def test_gpus_that_a_node_lost_under_its_tasks_are_not_to_spare() -> None:
    cluster = a_cluster(nodes={"broken": 0, "whole": 8}, jobs=[a_job("runs", gpus=2, on="broken")])
    slow = SchedulerConfig(parameters=Parameters(fast_paths=False))
    spare = [open_session(cluster, how).placer.gpus_to_spare() for how in (None, slow)]
    assert spare == [600, 600]


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_and_nodes_agree_on_the_gpus_to_spare(seed: int) -> None:
    quick = open_session(random_cluster(seed))
    slow = open_session(
        random_cluster(seed), SchedulerConfig(parameters=Parameters(fast_paths=False))
    )
    for job in slow.waiting.jobs:
        tasks = list(job.tasks.values())
        assert GpuRoom(tasks, quick).suffices() is GpuRoom(tasks, slow).suffices()
    assert quick.placer.gpus_to_spare() == slow.placer.gpus_to_spare()
    assert quick.placer.rows_with_gpus() == slow.placer.rows_with_gpus()


def test_a_checked_run_catches_an_order_that_depends_on_more_than_it_declares() -> None:
    jobs = [a_job("first", on=["a"]), a_job("second", on=["a"])]
    session = open_session(
        a_cluster(nodes={"a": 8}, jobs=jobs),
        SchedulerConfig(parameters=Parameters(check_fast_paths=True)),
    )
    favourite = ["first"]
    session.add_job_order_fn(lambda job: job.name in favourite, key=True, scope="job")
    assert names(session) == ["first", "second"]

    favourite[:] = ["second"]
    with pytest.raises(InvariantError, match="the reference gives"):
        names(session)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_equal_the_nodes_after_any_moves(seed: int) -> None:
    session = open_session(random_cluster(seed))
    chance = random.Random(seed)
    with session.attempt("test") as statement:
        for _ in range(12):
            shake(session, statement, chance)
            columns = vectors(session).columns.up_to_date()
            nodes = list(session.node_list)
            assert columns.idle.tolist() == [list(amounts_of(node.idle)) for node in nodes]
            free = (columns.free - columns.idle).tolist()
            assert free == [list(amounts_of(node.releasing)) for node in nodes]
            with_gpus = [n.idle.gpu + n.releasing.gpu for n in nodes if n.allocatable.gpu]
            extent = columns.extent("gpu")
            expected = (min(with_gpus, default=0), max(with_gpus, default=0))
            assert (extent.least, extent.most) == expected


OTHER: dict[str, object] = {
    "status": TaskStatus.RUNNING,
    "sub_group": "workers",
    "request": Request(cpu_milli=1),
    "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    "order_priority": "7",
    "labels": {"app": "x"},
    "node_selector": {"zone": "a"},
    "node_affinity_in": ("h100",),
    "affinity": (AffinityTerm(topology_key="rack", labels={}),),
    "anti_affinity": (AffinityTerm(topology_key="rack", labels={}),),
    "preferred_affinity": (AffinityTerm(topology_key="rack", labels={}),),
    "tolerations": (Toleration(key="team"),),
    "host_ports": (80,),
    "config_maps": ("settings",),
    "nominated_node": "a",
    "legacy_mig": True,
    "claims": (ClaimUse(claim="gpu"),),
}
"""A non-default value for every property of a task except name and place."""


def test_every_property_of_a_task_except_name_and_place_distinguishes_kinds() -> None:
    facts = {field.name for field in fields(TaskSpec)} - {"uid", "node", "gpu_groups"}
    assert set(OTHER) == facts


@pytest.mark.parametrize("fact", sorted(OTHER))
def test_tasks_that_differ_in_one_property_are_not_equal(fact: str) -> None:
    request = Request(cpu_milli=5)
    alike = [TaskSpec(uid=uid, node=uid, request=request) for uid in "abc"]
    other = replace(alike[0], uid="d", **{fact: OTHER[fact]})  # type: ignore[arg-type]

    assert end_of_equals([*alike, other, alike[0]], 0) == 3
    # Equal, though not identical objects.
    assert end_of_equals([other, deepcopy(other)], 0) == 2


def test_an_order_that_reads_more_than_its_job_is_not_cached() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("first", on=["a"]), a_job("second", on=["a"])])
    session = open_session(cluster)
    assert session.job_order().is_kept
    favourite = ["first"]
    session.add_job_order_fn(lambda job: job.name in favourite, key=True)

    order = [names(session)]
    favourite[:] = ["second"]
    order.append(names(session))

    assert not session.job_order().is_kept
    assert order == [["first", "second"], ["second", "first"]]


def names(session: Session) -> list[str]:
    queue = session.placer.queue_from(session.interruptible, lambda _: True, victims=True)
    return [job.name for job in iter(queue.pop, None)]
