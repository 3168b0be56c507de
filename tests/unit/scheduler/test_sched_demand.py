"""The demand that a cycle reports to the fleet."""

from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.worlds import a_cluster, a_job, a_queue, ask


def test_demand_lists_gangs_that_do_not_fit_in_serving_order() -> None:
    jobs = [
        a_job("fits", gpus=2),
        a_job("low", tasks=2, gpus=4, priority=10),
        a_job("high", gpus=8, priority=60),
    ]

    result = run_cycle(a_cluster(nodes={"a": 2}, jobs=jobs))

    assert [(d.job, d.gpus, len(d.tasks)) for d in result.demand] == [("high", 8, 1), ("low", 8, 2)]
    assert result.demand[0].tasks == (ask(8),)


def test_gangs_over_the_limit_of_their_queue_are_not_demand() -> None:
    queues = [a_queue("queue", limit=1)]

    result = run_cycle(a_cluster(nodes={"a": 0}, queues=queues, jobs=[a_job("job", gpus=2)]))

    assert result.demand == ()


def test_nominated_gangs_are_not_demand() -> None:
    jobs = [a_job("low", on="a"), a_job("high", priority=75)]

    assert run_cycle(a_cluster(nodes={"a": 1}, jobs=jobs)).demand == ()
