"""The order in which queues are served."""

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import JobSpec, NodeSpec, QueueSpec, ResourceShare
from navarch.scheduler.model.request import Request
from navarch.scheduler.plugins.pages import job_order
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask, placed

ALLOCATE = SchedulerConfig(actions=("allocate",))


def order(*, queues: list[QueueSpec], jobs: list[JobSpec], gpus: int = 8) -> list[object]:
    """Return the pending jobs in the order they would be served."""
    session = open_session(a_cluster(nodes={"a": gpus}, queues=queues, jobs=jobs))
    rows = job_order(session)["global_order"]
    assert isinstance(rows, list)
    return [row["id"] for row in rows]


def victims(session: Session, *names: str) -> list[str]:
    """Return these jobs in the order of eviction."""
    queue = session.placer.queue([session.jobs[name] for name in names], victims=True)
    found = []
    while (job := queue.pop()) is not None:
        found.append(job.name)
    return found


def test_a_queue_above_its_fair_share_of_everything_is_served_last() -> None:
    """Even with a higher priority, which counts only among queues within their share."""

    def queue(name: str, quota: float, priority: int) -> QueueSpec:
        share = ResourceShare(quota=quota, limit=-1, over_quota_weight=1)
        return a_queue(name, quota=quota, priority=priority, cpu=share, memory=share)

    def request(amount: int) -> Request:
        return ask(amount, cpu_milli=amount, memory_bytes=amount * 1_000_000)

    session = open_session(
        a_cluster(
            nodes=[NodeSpec(name="a", gpus=4, cpu_milli=4, memory_bytes=4_000_000)],
            queues=[queue("over", 0, 200), queue("under", 3, 100)],
            jobs=[
                *(a_job(f"held{i}", queue="over", request=request(1), on="a") for i in range(3)),
                a_job("second", queue="over", request=request(1)),
                # Above its quota, so that does not put it first.
                a_job("first", queue="under", request=request(4)),
            ],
        )
    )

    rows = job_order(session)["global_order"]

    assert isinstance(rows, list)
    assert [row["id"] for row in rows] == ["first", "second"]


def test_a_queue_within_its_quota_is_served_before_one_above_it() -> None:
    """Although it has a larger dominant share and a lower priority."""
    found = order(
        queues=[
            a_queue("within", quota=6, weight=0, priority=100),
            a_queue("beyond", quota=0, weight=9, priority=100),
        ],
        jobs=[
            a_job("held", queue="within", gpus=5, on="a"),
            a_job("first", queue="within", gpus=1),
            a_job("second", queue="beyond", gpus=1),
        ],
    )

    assert found == ["first", "second"]


def test_priority_decides_between_queues_above_quota() -> None:
    found = order(
        queues=[
            a_queue("low", quota=0, priority=100, age=9),
            a_queue("high", quota=0, priority=101),
        ],
        jobs=[
            a_job("held", queue="high", on="a"),
            a_job("second", queue="low"),
            a_job("first", queue="high"),
        ],
    )

    assert found == ["first", "second"]


def test_a_queue_without_a_share_is_served_last() -> None:
    """Although it uses nothing yet, and the other uses a lot."""
    found = order(
        queues=[a_queue("nothing", quota=0, weight=0, age=9), a_queue("some", quota=1, weight=1)],
        jobs=[
            a_job("held", queue="some", gpus=3, on="a"),
            a_job("second", queue="nothing"),
            a_job("first", queue="some"),
        ],
    )

    assert found == ["first", "second"]


def test_the_queue_with_the_smaller_dominant_share_is_served_first() -> None:
    found = order(
        queues=[a_queue("full", quota=0, age=9), a_queue("empty", quota=0)],
        jobs=[
            a_job("held", queue="full", gpus=2, on="a"),
            a_job("second", queue="full"),
            a_job("first", queue="empty"),
        ],
    )

    assert found == ["first", "second"]


def test_the_older_queue_is_served_first_if_nothing_else_differs() -> None:
    jobs = [a_job("one", queue="young"), a_job("two", queue="old")]

    assert order(queues=[a_queue("young"), a_queue("old", age=1)], jobs=jobs) == ["two", "one"]


def test_queues_of_the_same_age_are_served_by_name() -> None:
    jobs = [a_job("one", queue="b"), a_job("two", queue="a")]

    assert order(queues=[a_queue("b"), a_queue("a")], jobs=jobs) == ["two", "one"]


def test_the_queue_with_the_smaller_share_including_its_next_job_is_served_first() -> None:
    found = order(
        queues=[a_queue("modest", quota=0), a_queue("greedy", quota=0, age=9)],
        jobs=[a_job("second", queue="greedy", gpus=3), a_job("first", queue="modest", gpus=1)],
    )

    assert found == ["first", "second"]


def test_earlier_victims_count_as_gone_when_the_next_one_is_chosen() -> None:
    """Otherwise one queue, the one that used most at first, would lose everything."""
    session = open_session(
        a_cluster(
            nodes={"a": 8},
            queues=[a_queue("big", quota=0), a_queue("small", quota=0)],
            jobs=[
                *(a_job(f"big{i}", queue="big", on="a", age=9 - i) for i in range(4)),
                *(a_job(f"small{i}", queue="small", on="a", age=9 - i) for i in range(3)),
            ],
        )
    )

    names = [f"big{i}" for i in range(4)] + [f"small{i}" for i in range(3)]

    assert victims(session, *names)[:4] == ["big3", "small2", "big2", "small1"]


def test_a_queue_without_a_share_loses_jobs_first() -> None:
    """Although it would have nothing left, and the other a lot."""
    session = open_session(
        a_cluster(
            nodes={"a": 4},
            queues=[a_queue("nothing", quota=0, weight=0), a_queue("some", quota=1, weight=1)],
            jobs=[
                a_job("one", queue="nothing", on="a"),
                a_job("two", queue="some", on="a", gpus=2),
                a_job("three", queue="some", on="a", gpus=1),
            ],
        )
    )

    assert victims(session, "one", "two", "three")[0] == "one"


def test_each_placement_changes_which_queue_is_next() -> None:
    result = run_cycle(
        a_cluster(
            nodes={"a": 4},
            queues=[a_queue("p", quota=0), a_queue("q", quota=0)],
            jobs=[a_job(f"{q}{i}", queue=q, age=9 - i) for q in "pq" for i in range(4)],
        ),
        ALLOCATE,
    )

    assert sorted(placed(result)) == ["p0-0", "p1-0", "q0-0", "q1-0"]


def test_a_depth_keeps_the_best_jobs_of_a_queue() -> None:
    config = SchedulerConfig(
        actions=("allocate",), parameters=Parameters(queue_depth_per_action={"allocate": 2})
    )
    jobs = [a_job(f"job{i}", priority=i) for i in range(6)]

    result = run_cycle(a_cluster(nodes=[a_node("a", 8)], jobs=jobs), config)

    assert sorted(placed(result)) == ["job4-0", "job5-0"]
