"""Which queue is served first."""

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import JobSpec, NodeSpec, QueueSpec, ResourceShare
from navarch.scheduler.model.request import Request
from navarch.scheduler.plugins.reflectjoborder import job_order
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask, placed

ALLOCATE = SchedulerConfig(actions=("allocate",))


def order(*, queues: list[QueueSpec], jobs: list[JobSpec], gpus: int = 8) -> list[object]:
    """Return the pending jobs in the order they would be served."""
    session = open_session(a_cluster(nodes={"a": gpus}, queues=queues, jobs=jobs))
    rows = job_order(session)["global_order"]
    assert isinstance(rows, list)
    return [row["id"] for row in rows]


def victims(session: Session, *names: str) -> list[str]:
    """Return these jobs in the order they would be taken from."""
    queue = JobQueue.of(session, [session.jobs[name] for name in names], victims=True)
    found = []
    while (job := queue.pop()) is not None:
        found.append(job.name)
    return found


def test_a_queue_above_its_fair_share_of_everything_goes_last() -> None:
    """Even if its priority is higher: that only counts among queues not over-served."""

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
                # More than its quota, so it is not first for being within that.
                a_job("first", queue="under", request=request(4)),
            ],
        )
    )

    rows = job_order(session)["global_order"]

    assert isinstance(rows, list)
    assert [row["id"] for row in rows] == ["first", "second"]


def test_a_queue_within_its_quota_goes_before_one_beyond() -> None:
    """Although it has more of its share, as seen by the dominant share, and less priority."""
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


def test_the_priority_of_a_queue_decides_between_queues_beyond_quota() -> None:
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


def test_a_queue_that_is_due_nothing_goes_last() -> None:
    """Although it has nothing yet, and the other has a lot."""
    found = order(
        queues=[a_queue("nothing", quota=0, weight=0, age=9), a_queue("some", quota=1, weight=1)],
        jobs=[
            a_job("held", queue="some", gpus=3, on="a"),
            a_job("second", queue="nothing"),
            a_job("first", queue="some"),
        ],
    )

    assert found == ["first", "second"]


def test_the_queue_with_less_of_its_share_goes_first() -> None:
    found = order(
        queues=[a_queue("full", quota=0, age=9), a_queue("empty", quota=0)],
        jobs=[
            a_job("held", queue="full", gpus=2, on="a"),
            a_job("second", queue="full"),
            a_job("first", queue="empty"),
        ],
    )

    assert found == ["first", "second"]


def test_the_older_queue_goes_first_when_nothing_else_differs() -> None:
    jobs = [a_job("one", queue="young"), a_job("two", queue="old")]

    assert order(queues=[a_queue("young"), a_queue("old", age=1)], jobs=jobs) == ["two", "one"]


def test_queues_of_the_same_age_are_served_by_name() -> None:
    jobs = [a_job("one", queue="b"), a_job("two", queue="a")]

    assert order(queues=[a_queue("b"), a_queue("a")], jobs=jobs) == ["two", "one"]


def test_the_queue_that_would_have_less_of_its_share_with_its_job_goes_first() -> None:
    found = order(
        queues=[a_queue("modest", quota=0), a_queue("greedy", quota=0, age=9)],
        jobs=[a_job("second", queue="greedy", gpus=3), a_job("first", queue="modest", gpus=1)],
    )

    assert found == ["first", "second"]


def test_victims_already_taken_count_as_gone_when_the_next_one_is_chosen() -> None:
    """Otherwise everything would be taken from the queue that had most to begin with."""
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


def test_a_queue_that_is_due_nothing_gives_first() -> None:
    """Although it would have nothing left, and the other still a lot."""
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


def test_each_placement_changes_who_is_served_next() -> None:
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
