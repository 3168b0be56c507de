"""Gangs are evicted completely; only tasks above the minimum are evicted alone."""

import pytest

from navarch.scheduler.actions.solver.victims import whole_units
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, open_session, run_cycle
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.worlds import a_cluster, a_job, a_queue, promised, stopped

BOTH_PATHS = pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])


def run(cluster: Cluster, action: str, *, fast: bool) -> CycleResult:
    parameters = Parameters(fast_paths=fast)
    return run_cycle(cluster, SchedulerConfig(actions=(action,), parameters=parameters))


def strewn_gang(*, minimum: int, action: str) -> Cluster:
    """Return a gang of three on three nodes, and three tasks that fit in place of one."""
    queue, priority = ("q0", 50) if action == "reclaim" else ("q1", 75)
    on = ["node1", "node0", "node2"]
    return a_cluster(
        nodes={"node0": 4, "node1": 2, "node2": 2},
        queues=[a_queue("q0", quota=5, weight=0), a_queue("q1", quota=12, weight=0)],
        jobs=[
            a_job("gang", queue=queue, tasks=3, gpus=2, on=on, minimum=minimum, age=163),
            a_job("new", queue="q1", tasks=3, age=189, priority=priority),
        ],
    )


@BOTH_PATHS
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_gang_at_its_minimum_is_evicted_completely(action: str, *, fast: bool) -> None:
    """Reduced from a random cluster in which the third task kept running alone."""
    result = run(strewn_gang(minimum=3, action=action), action, fast=fast)

    assert sorted(stopped(result)) == ["gang-0", "gang-1", "gang-2"]
    assert promised(result) == {"new-0": "node0", "new-1": "node0", "new-2": "node0"}


@BOTH_PATHS
@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_task_above_the_minimum_is_evicted_alone(action: str, *, fast: bool) -> None:
    result = run(strewn_gang(minimum=2, action=action), action, fast=fast)

    assert stopped(result) == ["gang-2"]
    assert promised(result) == {"new-0": "node0", "new-1": "node0", "new-2": "node2"}


@pytest.mark.parametrize(
    ("leaving", "moved", "kept"),
    [
        ([4, 3, 2, 1, 0], [1], [4, 3, 2, 1, 0]),
        ([4, 3, 2, 1, 0], [4], [4]),
        ([4, 3, 2, 1, 0], [3, 2], [4, 3, 2, 1, 0]),
        ([4, 3], [3], [3]),
        ([4, 3], [], []),
    ],
)
def test_an_elastic_job_loses_single_tasks_until_its_minimum_is_reached(
    leaving: list[int], moved: list[int], kept: list[int]
) -> None:
    """The first three of five tasks are the minimum; the other two are separate units."""
    job = a_job("elastic", tasks=5, minimum=3, on="a")
    session = open_session(a_cluster(nodes={"a": 8}, jobs=[job]))
    tasks = list(session.jobs["elastic"].tasks.values())

    found = whole_units(session, [tasks[i] for i in leaving], {tasks[i].uid for i in moved})

    assert [tasks.index(task) for task in found] == kept


@BOTH_PATHS
def test_a_pending_task_of_an_evicted_gang_is_not_placed(*, fast: bool) -> None:
    """The task would run alone: the other two are leaving."""
    cluster = a_cluster(
        nodes={"x": 2, "y": 1},
        queues=[
            a_queue("a", quota=1, weight=0),
            a_queue("b", quota=2, weight=0),
            a_queue("c", quota=0, weight=0),
        ],
        jobs=[
            a_job("grows", queue="a", tasks=3, on=["x", "x", None], minimum=2),
            a_job("held", queue="c", on="y"),
            a_job("wants", queue="b", gpus=2),
        ],
    )

    result = run(cluster, "reclaim", fast=fast)

    assert sorted(stopped(result)) == ["grows-0", "grows-1"]
    assert promised(result) == {"wants-0": "x"}
