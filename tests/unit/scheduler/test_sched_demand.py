"""What a cycle asks the fleet for."""

from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.worlds import a_cluster, a_job, a_queue, ask


def test_gangs_that_did_not_fit_are_wanted_in_the_order_they_would_be_served() -> None:
    jobs = [
        a_job("fits", gpus=2),
        a_job("low", tasks=2, gpus=4, priority=10),
        a_job("high", gpus=8, priority=60),
    ]

    result = run_cycle(a_cluster(nodes={"a": 2}, jobs=jobs))

    assert [(d.job, d.gpus, len(d.tasks)) for d in result.demand] == [("high", 8, 1), ("low", 8, 2)]
    assert result.demand[0].tasks == (ask(8),)


def test_gangs_that_their_queue_would_not_allow_are_not_wanted() -> None:
    queues = [a_queue("queue", limit=1)]

    result = run_cycle(a_cluster(nodes={"a": 0}, queues=queues, jobs=[a_job("job", gpus=2)]))

    assert result.demand == ()


def test_gangs_for_which_a_place_is_kept_are_not_wanted() -> None:
    jobs = [a_job("low", on="a"), a_job("high", priority=75)]

    assert run_cycle(a_cluster(nodes={"a": 1}, jobs=jobs)).demand == ()
