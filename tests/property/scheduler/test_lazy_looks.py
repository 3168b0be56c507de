"""What lazy jobs report about their tasks equals what the tasks report."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from navarch.scheduler.cycle import open_session
from navarch.scheduler.model.job import Job
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import a_cluster, a_job, ask

LOOKS: list[dict[str, Any]] = [
    {"request": ask(1)},
    {"request": ask(0.5)},
    {"request": ask(1), "node_selector": {"zone": "a"}},
    {"request": ask(cpu_milli=7), "labels": {"role": "launcher"}},
]

Look = tuple[object, tuple[tuple[str, str], ...]]


def counted(job: Job) -> dict[Look, int]:
    found: dict[Look, int] = {}
    for spec, count in job.looks():
        look = repr(spec.request), tuple(spec.node_selector.items())
        found[look] = found.get(look, 0) + count
    return found


@given(
    st.lists(st.sampled_from(LOOKS), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_a_lazy_job_counts_the_looks_that_its_tasks_have_in_the_same_order(
    looks: list[dict[str, Any]], random: Random, running: bool
) -> None:
    spec = a_job("j", tasks=len(looks))
    place: dict[str, Any] = {"status": TaskStatus.RUNNING, "node": "n"} if running else {}
    tasks = [replace(task, **look, **place) for task, look in zip(spec.tasks, looks, strict=True)]
    random.shuffle(tasks)
    session = open_session(a_cluster(nodes={"n": 64}, jobs=[replace(spec, tasks=tuple(tasks))]))
    job = session.jobs["j"]
    lazy = list(counted(job).items())

    job.materialise()

    assert lazy == list(counted(job).items())
