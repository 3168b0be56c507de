"""All placers place whole gangs or nothing, and release whatever a sink refuses."""

from dataclasses import replace

import pytest

from navarch.scheduler import SchedulerConfig, open_session, run_cycle
from navarch.scheduler.actions.allocate import allocate
from navarch.scheduler.config import Parameters
from navarch.scheduler.engine.checked import CheckedPlacer
from navarch.scheduler.engine.vector_placer import VectorPlacer
from navarch.scheduler.framework.decision import Bind, Decision, DecisionLog
from navarch.scheduler.framework.reference_placer import ReferencePlacer
from navarch.scheduler.model.cluster import JobSpec
from navarch.scheduler.worlds import a_cluster, a_job, ask, placed, promised, stopped

REFERENCE = SchedulerConfig(parameters=Parameters(fast_paths=False))
VECTOR = SchedulerConfig()
CHECKED = SchedulerConfig(parameters=Parameters(check_fast_paths=True))

every_placer = pytest.mark.parametrize(
    "config", [REFERENCE, VECTOR, CHECKED], ids=["reference", "vector", "checked"]
)


def uneven_gang(name: str, *sizes: int, age: float = 0) -> JobSpec:
    """Return a gang with one task per size."""
    job = a_job(name, tasks=len(sizes), age=age)
    tasks = [replace(t, request=ask(gpus)) for t, gpus in zip(job.tasks, sizes, strict=True)]
    return replace(job, tasks=tuple(tasks))


class Refusing(DecisionLog):
    """A sink that refuses to bind some tasks."""

    def __init__(self, *tasks: str) -> None:
        super().__init__()
        self._tasks = tasks

    def accept(self, decision: Decision) -> str | None:
        if isinstance(decision, Bind) and decision.task in self._tasks:
            return "refused"
        return super().accept(decision)


def test_parameters_choose_the_placer_when_a_session_opens() -> None:
    cluster = a_cluster(nodes={"a": 1})

    chosen = [type(open_session(cluster, each).placer) for each in (REFERENCE, VECTOR, CHECKED)]

    assert chosen == [ReferencePlacer, VectorPlacer, CheckedPlacer]


@every_placer
def test_a_gang_with_one_task_that_does_not_fit_leaves_no_task_behind(
    config: SchedulerConfig,
) -> None:
    # Either task of the first gang fits alone, so placing it fails half-way.
    jobs = [uneven_gang("gang", 8, 4, age=9), a_job("later", gpus=8)]

    result = run_cycle(a_cluster(nodes={"a": 8}, jobs=jobs), config)

    assert placed(result) == {"later-0": "a"}


@every_placer
def test_a_failed_gang_leaves_the_session_as_it_was(config: SchedulerConfig) -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[uneven_gang("gang", 8, 4)])
    session = open_session(cluster, config)
    before = session.state()

    allocate(session)

    assert session.state() == before


@every_placer
def test_an_evicted_gang_that_fits_only_in_part_is_promised_no_place(
    config: SchedulerConfig,
) -> None:
    jobs = [a_job("gang", tasks=2, on="a"), a_job("urgent", gpus=2, priority=75)]

    result = run_cycle(a_cluster(nodes={"a": 2, "b": 1}, jobs=jobs), config)

    assert sorted(stopped(result)) == ["gang-0", "gang-1"]
    assert promised(result) == {"urgent-0": "a"}


@every_placer
def test_the_place_of_a_refused_bind_is_free_for_the_next_job(config: SchedulerConfig) -> None:
    sink = Refusing("first-0")
    jobs = [a_job("first", age=9), a_job("second")]
    session = open_session(a_cluster(nodes={"a": 1}, jobs=jobs), config, sink=sink)

    allocate(session)

    assert [d.task for d in sink.decisions if isinstance(d, Bind)] == ["second-0"]


@every_placer
def test_binds_accepted_before_a_refused_one_of_the_same_gang_are_withdrawn(
    config: SchedulerConfig,
) -> None:
    sink = Refusing("gang-1")
    session = open_session(
        a_cluster(nodes={"a": 8}, jobs=[a_job("gang", tasks=3)]), config, sink=sink
    )
    before = session.state()

    allocate(session)

    assert sink.decisions == []
    assert session.state() == before
