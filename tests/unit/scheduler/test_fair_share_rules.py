"""How the cluster is divided among queues."""

import pytest

from navarch.scheduler.config import PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import open_session
from navarch.scheduler.model.cluster import JobSpec, NodeHealth, QueueSpec, QueueUsage
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask


def fair_gpus(
    queues: list[QueueSpec],
    jobs: list[JobSpec],
    *,
    total: int = 8,
    usage: dict[str, float] | None = None,
    k_value: float = 1.0,
) -> dict[str, float]:
    """Return each queue's fair share of GPUs."""
    cluster = a_cluster(
        nodes=[a_node("a", total)],
        queues=queues,
        jobs=jobs,
        usage={name: QueueUsage(gpu=part) for name, part in (usage or {}).items()},
    )
    plugin = PluginConfig(name="proportion", arguments={"kValue": k_value})
    session = open_session(cluster, SchedulerConfig(plugins=(plugin,)))
    shares = {q.name: session.get_queue_fair_share(q) for q in session.queues.by_name.values()}
    return {name: gpus(share.gpu) for name, share in shares.items() if share is not None}


def wants(queue: str, amount: float) -> JobSpec:
    return a_job(f"{queue}-wants", queue=queue, gpus=amount)


def test_quotas_are_given_before_surplus() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=5, weight=1), a_queue("q", quota=1, weight=1)],
        [wants("p", 8), wants("q", 8)],
    )

    assert shares == {"p": 6, "q": 2}


def test_a_queue_gets_no_more_than_it_requests() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=5), a_queue("q", quota=1)], [wants("p", 2), wants("q", 8)]
    )

    assert shares == {"p": 2, "q": 6}


def test_quotas_may_exceed_the_cluster() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=6), a_queue("q", quota=6)], [wants("p", 8), wants("q", 8)]
    )

    assert shares == {"p": 6, "q": 6}


def test_surplus_is_divided_by_weight() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=0, weight=3), a_queue("q", quota=0, weight=1)],
        [wants("p", 8), wants("q", 8)],
    )

    assert shares == {"p": 6, "q": 2}


def test_a_queue_without_weight_gets_no_surplus() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=1, weight=0), a_queue("q", quota=1, weight=1)],
        [wants("p", 8), wants("q", 3)],
    )

    assert shares == {"p": 1, "q": 3}


def test_surplus_goes_to_queues_of_higher_priority_first() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=0, priority=100), a_queue("q", quota=0, priority=200)],
        [wants("p", 8), wants("q", 5)],
    )

    assert shares == {"p": 3, "q": 5}


def test_a_limit_bounds_the_fair_share() -> None:
    shares = fair_gpus(
        [a_queue("p", quota=0, limit=2), a_queue("q", quota=0)], [wants("p", 8), wants("q", 8)]
    )

    assert shares == {"p": 2, "q": 6}


def test_rounding_units_go_to_the_largest_remainder_then_the_oldest_queue() -> None:
    queues = [a_queue("p", quota=0, age=1), a_queue("q", quota=0, age=2), a_queue("r", quota=0)]

    shares = fair_gpus(queues, [wants(name, 8) for name in "pqr"])

    assert shares == {"p": 3, "q": 3, "r": 2}


def test_surplus_that_one_queue_does_not_need_is_divided_again() -> None:
    queues = [a_queue("p", quota=0), a_queue("q", quota=0), a_queue("r", quota=0)]

    shares = fair_gpus(queues, [wants("p", 1), wants("q", 8), wants("r", 8)], total=9)

    assert shares == {"p": 1, "q": 4, "r": 4}


def test_children_divide_the_share_of_their_parent() -> None:
    queues = [
        a_queue("left", quota=6, weight=0),
        a_queue("right", quota=2, weight=0),
        a_queue("p", quota=0, weight=2, parent="left"),
        a_queue("q", quota=0, weight=1, parent="left"),
        a_queue("r", quota=8, parent="right"),
    ]

    shares = fair_gpus(queues, [wants("p", 8), wants("q", 8), wants("r", 8)])

    assert shares == {"left": 6, "right": 2, "p": 4, "q": 2, "r": 8}


@pytest.mark.parametrize(
    ("k_value", "expected"), [(0.0, {"p": 6.0, "q": 6.0}), (1.0, {"p": 4.0, "q": 8.0})]
)
def test_the_k_value_sets_how_much_past_usage_reduces_a_share(
    k_value: float, expected: dict[str, float]
) -> None:
    shares = fair_gpus(
        [a_queue("p", quota=0), a_queue("q", quota=0)],
        [wants("p", 12), wants("q", 12)],
        total=12,
        usage={"p": 0.5, "q": 0.0},
        k_value=k_value,
    )

    assert shares == expected


def test_without_past_usage_the_k_value_has_no_effect() -> None:
    queues = [a_queue("p", quota=0, weight=3), a_queue("q", quota=0, weight=1)]
    jobs = [wants("p", 8), wants("q", 8)]

    assert fair_gpus(queues, jobs, k_value=0.0) == fair_gpus(queues, jobs, k_value=5.0)


def test_nodes_that_are_not_ready_add_nothing_to_shares() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", 4), a_node("b", 4, health=NodeHealth(ready=False))],
        queues=[a_queue("p", quota=0)],
        jobs=[wants("p", 8)],
    )
    session = open_session(cluster)
    share = session.get_queue_fair_share(session.queues.by_name["p"])

    assert share is not None
    assert gpus(share.gpu) == 4


def test_a_gpu_memory_request_counts_as_a_part_of_the_smallest_gpu() -> None:
    """Not by an arbitrary 100 MiB, which would make it look like hundreds of GPUs."""
    cluster = a_cluster(
        nodes=[a_node("a", 4, gpu_memory_mib=40_000), a_node("b", 4, gpu_memory_mib=80_000)],
        queues=[a_queue("p", quota=0), a_queue("q", quota=0)],
        jobs=[
            a_job("memory", queue="p", request=ask(memory_mib=20_000)),
            a_job("whole", queue="q", gpus=8),
        ],
    )
    session = open_session(cluster)
    p, q = (session.get_queue_fair_share(session.queues.by_name[name]) for name in "pq")

    assert p is not None
    assert q is not None
    assert (gpus(p.gpu), gpus(q.gpu)) == (0.5, 7.5)
