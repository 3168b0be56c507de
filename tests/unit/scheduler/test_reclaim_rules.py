"""Queues reclaim from other queues."""

import pytest

from navarch.scheduler.config import (
    DEFAULT_PLUGINS,
    Parameters,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.cycle import CycleResult, open_session, run_cycle
from navarch.scheduler.model.cluster import Cluster, QueueSpec
from navarch.scheduler.plugins.proportion.reclaim import saturation
from navarch.scheduler.worlds import a_cluster, a_job, a_queue, promised, stopped


def reclaim(cluster: Cluster, *, multiplier: float = 1.0, count_moved: bool = False) -> CycleResult:
    plugins = tuple(
        PluginConfig(name=p.name, arguments={"relcaimerSaturationMultiplier": multiplier})
        if p.name == "proportion"
        else p
        for p in DEFAULT_PLUGINS
    )
    config = SchedulerConfig(
        actions=("reclaim",),
        plugins=plugins,
        parameters=Parameters(allow_consolidating_reclaim=not count_moved),
    )
    return run_cycle(cluster, config)


def two_queues(ours: float = 4, theirs: float = 4) -> list[QueueSpec]:
    return [a_queue("ours", quota=ours, weight=0), a_queue("theirs", quota=theirs, weight=0)]


def test_a_queue_reclaims_its_quota() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        queues=two_queues(),
        jobs=[
            *(a_job(f"held{i}", queue="theirs", gpus=2, on="a", age=9 - i) for i in range(4)),
            a_job("wants", queue="ours", gpus=4),
        ],
    )

    result = reclaim(cluster)

    assert stopped(result) == ["held3-0", "held2-0"]
    assert promised(result) == {"wants-0": "a"}


def test_a_queue_within_its_quota_loses_nothing() -> None:
    cluster = a_cluster(
        nodes={"a": 4},
        queues=two_queues(theirs=4),
        jobs=[a_job("held", queue="theirs", gpus=4, on="a"), a_job("wants", queue="ours")],
    )

    assert stopped(reclaim(cluster)) == []


def test_a_job_that_lifts_its_queue_above_its_fair_share_may_not_reclaim() -> None:
    """This is checked before anything is simulated."""
    cluster = a_cluster(
        nodes={"a": 8},
        queues=two_queues(ours=2, theirs=1),
        jobs=[
            *(a_job(f"held{i}", queue="theirs", gpus=1, on="a") for i in range(6)),
            a_job("have", queue="ours", gpus=2, on="a"),
            a_job("wants", queue="ours", gpus=1),
        ],
    )
    session = open_session(cluster)

    assert not session.can_reclaim_resources(session.jobs["wants"])
    assert stopped(reclaim(cluster)) == []


def test_a_non_preemptible_job_may_reclaim_only_within_quota() -> None:
    cluster = a_cluster(
        nodes={"a": 4},
        queues=[a_queue("ours", quota=1, weight=9), a_queue("theirs", quota=0, weight=1)],
        jobs=[
            a_job("held0", queue="theirs", gpus=2, on="a"),
            a_job("held1", queue="theirs", gpus=2, on="a"),
            a_job("fixed", queue="ours", gpus=2, preemptible=False),
        ],
    )
    session = open_session(cluster)

    assert not session.can_reclaim_resources(session.jobs["fixed"])
    assert stopped(reclaim(cluster)) == []


def test_only_preemptible_jobs_are_victims() -> None:
    cluster = a_cluster(
        nodes={"a": 4},
        queues=two_queues(ours=4, theirs=0),
        jobs=[
            a_job("fixed", queue="theirs", gpus=4, on="a", preemptible=False),
            a_job("wants", queue="ours", gpus=1),
        ],
    )

    assert stopped(reclaim(cluster)) == []


def test_queues_are_compared_where_they_diverge() -> None:
    """The victim's own queue is within its quota, but its parent is above its own."""
    cluster = a_cluster(
        nodes={"a": 8},
        queues=[
            a_queue("left", quota=4, weight=0),
            a_queue("right", quota=4, weight=0),
            a_queue("ours", quota=4, weight=0, parent="left"),
            a_queue("theirs", quota=8, weight=0, parent="right"),
        ],
        jobs=[
            *(a_job(f"held{i}", queue="theirs", gpus=2, on="a", age=9 - i) for i in range(4)),
            a_job("wants", queue="ours", gpus=2),
        ],
    )

    assert stopped(reclaim(cluster)) == ["held3-0"]


def test_a_parent_within_its_share_protects_a_child_above_its_own() -> None:
    """The other way round: compared as leaves, the victim's queue would lose."""
    cluster = a_cluster(
        nodes={"a": 8},
        queues=[
            a_queue("left", quota=0, weight=1),
            a_queue("right", quota=8, weight=0),
            a_queue("ours", quota=4, weight=0, parent="left"),
            a_queue("theirs", quota=0, weight=1, parent="right"),
        ],
        jobs=[
            *(a_job(f"held{i}", queue="theirs", gpus=2, on="a") for i in range(4)),
            a_job("wants", queue="ours", gpus=2),
        ],
    )

    assert stopped(reclaim(cluster)) == []


@pytest.mark.parametrize(
    ("theirs", "multiplier", "expected"),
    [
        (7, 1.0, ["held6-0"]),  # ours would be at 5/4, theirs still at 6/4
        (6, 1.0, []),  # both would be at 5/4: equal saturation is already too much
        (5, 1.0, []),
        (7, 1.2, []),  # 1.2 times 5/4 is 6/4
        (8, 1.2, ["held7-0"]),
    ],
)
def test_a_parent_may_not_end_as_saturated_as_one_that_lost(
    theirs: int, multiplier: float, expected: list[str]
) -> None:
    """The job's own queue stays within its share; its parent exceeds its own."""
    cluster = a_cluster(
        nodes={"a": 4 + theirs},
        queues=[
            a_queue("left", quota=4, weight=0),
            a_queue("right", quota=4, weight=0),
            a_queue("ours", quota=2, weight=0, parent="left"),
            a_queue("sister", quota=4, weight=0, parent="left"),
            a_queue("theirs", quota=4, weight=0, parent="right"),
        ],
        jobs=[
            *(a_job(f"sister{i}", queue="sister", on="a", preemptible=False) for i in range(4)),
            *(a_job(f"held{i}", queue="theirs", on="a", age=9 - i) for i in range(theirs)),
            a_job("wants", queue="ours", gpus=1),
        ],
    )

    assert stopped(reclaim(cluster, multiplier=multiplier)) == expected


def test_tasks_above_the_minimum_are_judged_one_by_one() -> None:
    """The queue can lose one of them; the second would cut into its quota."""

    def cluster(gpus: int) -> Cluster:
        return a_cluster(
            nodes={"a": 4},
            queues=two_queues(ours=2, theirs=3),
            jobs=[
                a_job("elastic", queue="theirs", tasks=4, on="a", minimum=1),
                a_job("wants", queue="ours", gpus=gpus),
            ],
        )

    assert stopped(reclaim(cluster(1))) == ["elastic-3"]
    assert stopped(reclaim(cluster(2))) == []


def test_a_quota_is_served_even_by_queues_within_their_fair_share() -> None:
    """Usage above a quota is reclaimed for a queue within its own quota."""
    cluster = a_cluster(
        nodes={"a": 6},
        queues=[
            a_queue("ours", quota=2, weight=0),
            a_queue("theirs", quota=1, weight=1),
            a_queue("stuck", quota=0, weight=0),
        ],
        jobs=[
            *(a_job(f"held{i}", queue="theirs", on="a", age=9 - i) for i in range(3)),
            a_job("fixed", queue="stuck", gpus=3, on="a", preemptible=False),
            a_job("wants", queue="ours", gpus=2),
        ],
    )

    assert stopped(reclaim(cluster)) == ["held2-0", "held1-0"]


def test_the_minimum_of_a_gang_is_judged_as_one() -> None:
    """All four are evicted, although after the first the queue would be at its share."""
    cluster = a_cluster(
        nodes={"a": 4},
        queues=two_queues(ours=1, theirs=3),
        jobs=[a_job("gang", queue="theirs", tasks=4, on="a"), a_job("wants", queue="ours")],
    )

    assert stopped(reclaim(cluster)) == [f"gang-{i}" for i in (3, 2, 1, 0)]


def test_victims_with_another_place_do_not_count_as_taken() -> None:
    cluster = a_cluster(
        nodes={"a": 2, "b": 2},
        queues=two_queues(ours=2, theirs=2),
        jobs=[
            a_job("held0", queue="theirs", gpus=1, on="a", age=2),
            a_job("held1", queue="theirs", gpus=1, on="b", age=1),
            a_job("wants", queue="ours", gpus=2),
        ],
    )

    moved = reclaim(cluster, count_moved=False)
    kept = reclaim(cluster, count_moved=True)

    assert promised(moved) == {"held1-0": "a", "wants-0": "b"}
    assert promised(kept) == {}


@pytest.mark.parametrize(
    ("allocated", "fair_share", "expected"),
    [(5, 10, 0.5), (5, 0, float("inf")), (0, 0, 0.0), (5, -1, 0.0)],
)
def test_saturation(allocated: float, fair_share: float, expected: float) -> None:
    assert saturation(allocated, fair_share) == expected
