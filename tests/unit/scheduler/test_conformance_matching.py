"""The matcher finds differences that the original suite of the cases ignores."""

from dataclasses import replace

import pytest

from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import run_session
from navarch.scheduler.framework.decision import Bind, DecisionLog
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import a_cluster, a_job, ask
from navarch.testing.scheduler_conformance.case import Case, Expectation, Limits
from navarch.testing.scheduler_conformance.match import mismatches, unexplained
from navarch.testing.scheduler_conformance.run import run_case


def a_case(**facts: object) -> Case:
    half = ask(0.5)
    defaults: dict[str, object] = {
        "id": "case",
        "cluster": a_cluster(
            nodes={"a": 2},
            jobs=[a_job("held", request=half, on="a", groups=["x"]), a_job("job", request=half)],
        ),
        "config": SchedulerConfig(actions=("allocate",)),
        "integration": False,
        "rounds_until_match": 1,
        "rounds_after_match": 0,
        "bind_always_fails": False,
        "limits": Limits(binds=1, evictions=0, pipelines=0),
        "deleted_jobs": frozenset(),
        "jobs": {},
        "tasks": {},
        "nodes": {},
    }
    return Case(**{**defaults, **facts})  # type: ignore[arg-type]


def expecting(held: str, job: str) -> Case:
    binding = Expectation(status=TaskStatus.BINDING, gpus_required=0.5, gpu_groups=(job,))
    running = Expectation(status=TaskStatus.RUNNING, gpus_required=0.5, gpu_groups=(held,))
    jobs = a_case().cluster.jobs
    started = replace(jobs[0], last_start=jobs[0].created_at)
    cluster = replace(a_case().cluster, jobs=(started, jobs[1]))
    return a_case(cluster=cluster, jobs={"held": running, "job": binding})


def test_tasks_expected_to_share_a_gpu_must_share_one() -> None:
    assert run_case(expecting("0", "0")).passed


def test_tasks_expected_on_separate_gpus_must_not_share_one() -> None:
    result = run_case(expecting("0", "1"))

    assert result.why == "tasks held-0 and job-0: share a GPU of a"


def test_too_many_decisions_fail_the_case() -> None:
    result = run_case(a_case(limits=Limits(binds=0, evictions=0, pipelines=0)))

    assert result.why == "1 Bind decisions, at most 0 allowed"


def test_a_missing_decision_fails_the_case() -> None:
    log = DecisionLog()
    case = a_case()
    session = run_session(case.cluster, case.config, sink=log)

    assert list(unexplained(session, log.decisions)) == []
    without = [d for d in log.decisions if not isinstance(d, Bind)]
    (problem,) = unexplained(session, without)
    assert problem.startswith("task job-0: Pending and no decision do not make Binding")


def test_a_repeated_decision_fails_the_case() -> None:
    log = DecisionLog()
    case = a_case()
    session = run_session(case.cluster, case.config, sink=log)

    assert len(list(unexplained(session, log.decisions * 2))) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpus_required", 1.0), ("node", "b"), ("milli_cpu_required", 7.0), ("memory_required", 7.0)],
)
def test_every_expected_amount_is_compared(field: str, value: object) -> None:
    right = Expectation(status=TaskStatus.BINDING, gpus_required=0.5)
    assert run_case(a_case(jobs={"job": right})).passed

    wrong = replace(right, **{field: value})  # type: ignore[arg-type]
    assert not run_case(a_case(jobs={"job": wrong})).passed


def test_a_missing_job_fails_the_case() -> None:
    case = a_case(jobs={"missing": Expectation(status=TaskStatus.PENDING)})
    session = run_session(case.cluster, case.config)

    assert list(mismatches(case, session, {})) == ["job missing: not in the session"]


def test_a_case_in_which_every_bind_fails_binds_nothing() -> None:
    case = a_case(bind_always_fails=True)

    assert run_case(case).passed
    assert run_case(replace(case, limits=Limits(binds=0, evictions=0, pipelines=0))).passed
