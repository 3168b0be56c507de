"""Fast paths decide like the reference, and run hooks only as often as their scopes require."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from bench.scheduler_workloads import (
    config_for,
    decided,
    many_classes,
    nearly_full,
    one_class,
    random_cluster,
    reclaim_large,
    whole_nodes,
)

from navarch.core.errors import InvariantError
from navarch.scheduler import (
    CycleResult,
    PluginConfig,
    SchedulerConfig,
    Session,
    built_in_plugins,
    open_session,
    run_cycle,
)
from navarch.scheduler.actions.allocate import allocate
from navarch.scheduler.config import DEFAULT_PLUGINS, Parameters
from navarch.scheduler.engine.vector_placer import VectorPlacer
from navarch.scheduler.framework.decision import Bind, Decision, DecisionLog
from navarch.scheduler.framework.hooks import Event, EventHandler
from navarch.scheduler.model.cluster import Cluster, JobSpec
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.worlds import a_cluster, a_job, a_node, placed, promised

Register = Callable[[Session], None]

SLOW = Parameters(fast_paths=False)
CHECKED = Parameters(check_fast_paths=True)


class Plugged:
    """A plugin made of one function that registers hooks."""

    def __init__(self, register: Register) -> None:
        self.name = "plugged"
        self._register = register

    def on_session_open(self, session: Session) -> None:
        self._register(session)

    def on_session_close(self, session: Session) -> None:
        pass


def vectors(session: Session) -> VectorPlacer:
    assert isinstance(session.placer, VectorPlacer)
    return session.placer


def run(cluster: Cluster, parameters: Parameters, register: Register | None = None) -> CycleResult:
    registry = built_in_plugins()
    plugins = DEFAULT_PLUGINS
    if register is not None:
        registry.register("plugged", lambda: Plugged(register))
        plugins = (*plugins, PluginConfig(name="plugged"))
    config = SchedulerConfig(plugins=plugins, parameters=parameters)
    return run_cycle(cluster, config, registry=registry)


def test_decisions_on_random_clusters_equal_those_of_the_reference() -> None:
    different = [s for s in range(80) if decided(s, fast=True) != decided(s, fast=False)]

    assert different == []


@pytest.mark.parametrize("seed", [10_434, 10_503, 10_510, 11_268])
def test_decisions_on_clusters_that_once_differed_equal_those_of_the_reference(seed: int) -> None:
    assert decided(seed, fast=True) == decided(seed, fast=False)


@pytest.mark.long
def test_decisions_on_many_random_clusters_equal_those_of_the_reference() -> None:
    seeds = range(10_000, 11_500)
    different = [s for s in seeds if decided(s, fast=True) != decided(s, fast=False)]

    assert different == []


@pytest.mark.parametrize(
    "build",
    [
        lambda: one_class(12, 120, single=False),
        lambda: one_class(12, 120, single=True),
        lambda: many_classes(12, 120, 5, single=False),
        lambda: many_classes(12, 120, 5, single=True),
        lambda: whole_nodes(20, 8, single=True),
        lambda: nearly_full(80, 30, single=True),
        lambda: reclaim_large(50),
    ],
    ids=["one", "one-single", "many", "many-single", "whole-nodes", "nearly-full", "reclaim"],
)
def test_decisions_on_benchmarks_equal_those_of_the_reference(build: Callable[[], Cluster]) -> None:
    cluster = build()

    assert run(cluster, Parameters()).decisions == run(cluster, SLOW).decisions


def test_a_checked_run_finds_no_difference() -> None:
    for seed in range(20):
        config = config_for(seed, fast=True)
        run_cycle(random_cluster(seed), replace(config, parameters=CHECKED))
    run(reclaim_large(50), CHECKED)


@pytest.mark.parametrize("seed", [30_038, 30_126, 30_202, 30_205, 30_313, 30_319, 30_360, 30_381])
def test_a_checked_run_keeps_no_places_computed_before_the_last_change(seed: int) -> None:
    config = config_for(seed, fast=True)

    run_cycle(random_cluster(seed), replace(config, parameters=CHECKED))


def test_a_checked_run_catches_a_wrong_vector_form() -> None:
    def register(session: Session) -> None:
        session.add_node_order_fn(
            lambda _task, node: 50.0 if node.name == "a" else 0.0,
            scope="node",
            vector=lambda _task, nodes: nodes.gpu_idle * 0.0,
        )

    cluster = a_cluster(nodes={"0": 8, "a": 8}, jobs=[a_job("job", tasks=8)])

    with pytest.raises(InvariantError, match="plugged node"):
        run(cluster, CHECKED, register)


def test_a_checked_run_catches_a_scope_that_is_too_narrow() -> None:
    def moody(_task: Task, node: Node) -> float:
        return -50.0 * len(node.tasks)

    cluster = a_cluster(nodes={"a": 8, "b": 8}, jobs=[a_job("job", tasks=3)])

    with pytest.raises(InvariantError):
        run(cluster, CHECKED, lambda session: session.add_node_order_fn(moody, scope="static"))


def count_calls(scope: str, *, tasks: int = 32, gpus: int = 1) -> int:
    calls: list[str] = []

    def score(_task: Task, node: Node) -> float:
        calls.append(node.name)
        return 0.0

    cluster = a_cluster(
        nodes={f"n{i:02d}": 8 for i in range(10)}, jobs=[a_job("job", tasks=tasks, gpus=gpus)]
    )
    config = SchedulerConfig(actions=("allocate",))
    session = open_session(cluster, config)
    session.add_plugin(
        Plugged(lambda s: s.add_node_order_fn(score, scope=scope))  # type: ignore[arg-type]
    )
    allocate(session)
    return len(calls)


def test_a_static_hook_runs_once_per_node() -> None:
    assert count_calls("static") == 10


def test_a_node_hook_runs_again_only_for_changed_nodes() -> None:
    # All nodes at first and whenever the fullest node changes; otherwise the changed one.
    assert count_calls("node", tasks=64) < 64 * 10 / 3


def test_a_full_node_does_not_rerun_hooks_for_unchanged_nodes() -> None:
    # Ten nodes once, and each again for every task placed there except the last.
    assert count_calls("node", tasks=80) <= 10 + 80


def test_a_gang_of_two_kinds_without_room_is_rejected_without_materialising_tasks() -> None:
    jobs = [
        a_job("first", tasks=2, gpus=4),
        *(mixed_job(f"mixed-{i}", ones=1, fours=4, age=-i) for i in range(3)),
    ]
    session = open_session(
        a_cluster(nodes={"a": 8, "b": 8}, jobs=jobs), SchedulerConfig(actions=("allocate",))
    )
    allocate(session)

    waiting = [job for name, job in session.jobs.items() if name.startswith("mixed")]
    assert sorted(session.unplaced) == ["mixed-0", "mixed-1", "mixed-2"]
    assert not waiting[-1].is_materialised


def test_pods_equal_to_one_without_room_are_rejected_without_hooks() -> None:
    jobs = [a_job("first", gpus=7), *(a_job(f"next-{i}", gpus=2, age=-i) for i in range(2))]
    session = open_session(
        a_cluster(nodes={"a": 8}, jobs=jobs), SchedulerConfig(actions=("allocate",))
    )
    allocate(session)

    assert sorted(session.unplaced) == ["next-0", "next-1"]
    job = session.jobs["next-1"]
    finder, task = vectors(session).finder, next(iter(job.tasks.values()))
    ranking = finder.ranking(finder.kind(task), [task], job)
    assert ranking is not None
    assert ranking.is_hopeless(1)


def test_a_gang_with_too_few_places_takes_none_of_them() -> None:
    singles = [a_job(f"single-{i}", age=9 - i) for i in range(5)]
    cluster = a_cluster(
        nodes={"a": 8, "b": 8, "c": 8, "full": 8},
        jobs=[a_job("running", gpus=8, on="full"), *singles, a_job("gang", tasks=20, age=0)],
    )
    session = open_session(cluster, SchedulerConfig(actions=("allocate",)))
    allocate(session)

    assert sorted(session.unplaced) == ["gang"]
    assert session.changes.grown == 0


def test_decisions_on_gangs_of_several_kinds_equal_those_of_the_reference() -> None:
    for fours in range(1, 5):
        jobs = [mixed_job(f"mixed-{i}", ones=i % 3 + 1, fours=fours, age=-i) for i in range(4)]
        cluster = a_cluster(nodes={"a": 8, "b": 8, "c": 4}, jobs=jobs)

        quick, slow = run(cluster, Parameters()), run(cluster, SLOW)

        assert quick.decisions == slow.decisions
        assert quick.demand == slow.demand


def mixed_job(name: str, *, ones: int, fours: int, age: int) -> JobSpec:
    """Return a gang of small and large tasks with alternating names."""
    job = a_job(name, tasks=ones + fours, gpus=4, age=age)
    small = a_job(name, tasks=1, gpus=1).tasks[0].request
    tasks = [replace(t, request=small) if i < ones else t for i, t in enumerate(job.tasks)]
    return replace(job, tasks=tuple(tasks))


def test_a_global_hook_runs_every_time() -> None:
    assert count_calls("global") == 32 * 10


def test_a_score_that_reads_the_tasks_of_a_node_decides_the_same_either_way() -> None:
    def register(session: Session) -> None:
        session.add_node_order_fn(
            lambda _task, node: 3.0 if len(node.tasks) % 3 else 0.5, scope="node"
        )

    cluster = a_cluster(
        nodes={f"n{i:02d}": 8 for i in range(12)},
        jobs=[a_job("job", tasks=60), a_job("more", tasks=20)],
    )

    assert run(cluster, Parameters(), register).decisions == run(cluster, SLOW, register).decisions


def test_a_rule_of_one_queue_applies_only_to_that_queue() -> None:
    def register(session: Session) -> None:
        session.add_predicate_fn(
            lambda _task, job, node: "kept for others" if job.queue == node.name else None,
            scope="static",
        )

    from navarch.scheduler.worlds import a_queue

    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        queues=[a_queue("a"), a_queue("b")],
        jobs=[a_job("one", queue="a"), a_job("two", queue="b")],
    )

    assert placed(run(cluster, Parameters(), register)) == {"one-0": "b", "two-0": "a"}


def test_handlers_of_single_events_receive_them_one_by_one() -> None:
    events: list[tuple[str, str]] = []

    def note(event: Event) -> None:
        events.append((event.task.uid, event.node))

    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=3)])
    run(cluster, Parameters(), lambda s: s.add_event_handler(EventHandler(allocate_fn=note)))

    assert events == [("job-0", "a"), ("job-1", "a"), ("job-2", "a")]


def test_a_hook_that_fails_after_a_gang_was_placed_leaves_no_trace() -> None:
    def fail(task: Task, node: str) -> dict[str, str]:
        raise RuntimeError(f"no annotation for {task.uid} on {node}")

    session = open_session(a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=3)]))
    before = session.state()
    session.add_bind_request_mutate_fn(fail)

    with pytest.raises(RuntimeError):
        allocate(session)

    assert session.state() == before


def test_a_gang_with_one_refused_bind_leaves_no_trace() -> None:
    class Picky(DecisionLog):
        def accept(self, decision: Decision) -> str | None:
            refused = isinstance(decision, Bind) and decision.task == "job-2"
            return "not this one" if refused else super().accept(decision)

    sink = Picky()
    session = open_session(a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=3)]), sink=sink)
    before = session.state()

    allocate(session)

    assert session.state() == before
    assert sink.decisions == []


def test_running_gangs_are_equal_with_and_without_materialised_tasks() -> None:
    for seed in range(40):
        quick = open_session(random_cluster(seed), config_for(seed, fast=True))
        slow = open_session(random_cluster(seed), config_for(seed, fast=False))
        tables = quick.node_table(), slow.node_table()

        assert tables[0].idle.tolist() == tables[1].idle.tolist()
        assert tables[0].free.tolist() == tables[1].free.tolist()
        assert quick.state() == slow.state()


def test_a_handler_that_refuses_a_batch_leaves_no_trace() -> None:
    def refuse(event: Event) -> None:
        if event.task.uid == "job-2":
            raise RuntimeError("not this one")

    session = open_session(a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=3)]))
    before = session.state()
    session.add_event_handler(EventHandler(allocate_fn=refuse))

    with pytest.raises(RuntimeError):
        allocate(session)

    assert session.state() == before


def test_amounts_beyond_the_range_of_arrays_use_the_reference() -> None:
    huge = a_node("a", memory_bytes=2**60)

    assert placed(run(a_cluster(nodes=[huge], jobs=[a_job("job")]), Parameters())) == {"job-0": "a"}


def test_an_action_gives_up_after_its_budget_and_reports_it() -> None:
    cluster = reclaim_large(50)

    result = run(cluster, Parameters(simulations_per_action=0))

    (gave_up,) = [each for each in result.gave_up if each.action == "reclaim"]
    assert gave_up.job == "very-large-job"
    assert "0 simulations" in gave_up.reason


def test_time_is_bounded_only_with_a_clock() -> None:
    config = SchedulerConfig(actions=("reclaim",), parameters=Parameters(seconds_per_action=5))
    ticks = iter(range(0, 10_000, 10))
    cluster = reclaim_large(50)

    assert run_cycle(cluster, config).gave_up == ()
    (gave_up,) = run_cycle(cluster, config, clock=lambda: float(next(ticks))).gave_up
    assert gave_up.reason == "5 seconds"


def test_placing_gives_up_after_its_time_and_reports_the_job() -> None:
    config = SchedulerConfig(actions=("allocate",), parameters=Parameters(seconds_per_action=15))
    jobs = [a_job(f"job{i}", age=9 - i) for i in range(3)]
    cluster = a_cluster(nodes={"a": 8}, jobs=jobs)
    ticks = iter(range(0, 10_000, 10))

    late = run_cycle(cluster, config, clock=lambda: float(next(ticks)))

    assert placed(late) == {"job0-0": "a"}
    (gave_up,) = late.gave_up
    assert (gave_up.action, gave_up.job, gave_up.reason) == ("allocate", "job1", "15 seconds")
    in_time = run_cycle(cluster, config, clock=lambda: 0.0)
    assert (len(placed(in_time)), in_time.gave_up) == (3, ())


def test_the_number_of_simulations_does_not_bound_placing() -> None:
    result = run(
        a_cluster(nodes={"a": 8}, jobs=[a_job("job")]), Parameters(simulations_per_action=0)
    )

    assert placed(result) == {"job-0": "a"}
    assert result.gave_up == ()


def test_chains_of_moves_are_found_if_candidates_are_tried_together() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", 4, labels={"rack": "r"}), a_node("b", 4), a_node("c", 2)],
        jobs=[
            a_job("first", gpus=3, on="a", age=9),
            a_job("second", gpus=2, on="b", age=8),
            a_job("pinned", gpus=4, age=20, task={"node_selector": {"rack": "r"}}),
        ],
    )

    beside = run(cluster, Parameters())
    together = run(cluster, Parameters(victims_on_many_nodes=True))

    assert promised(beside) == {}
    assert promised(together) == {"pinned-0": "a", "first-0": "b", "second-0": "c"}
