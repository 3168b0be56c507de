"""Weaknesses of the reference that this scheduler does not share.

Those that are rules of a plugin are tested with the other rules of that plugin: requests for GPU
memory (`test_fair_share_rules`), device counts, pod slots and anti-affinity against victims
(`test_predicate_rules`), exclusive extension points (`test_sched_extension_points`), atomic
commits and handlers that fail (`test_sched_statements`), depth and victim limits
(`test_queue_order_rules`, `test_consolidation_rules`), fractions (`test_node_score_rules`).
"""

from dataclasses import replace
from datetime import timedelta

from navarch.scheduler.actions import find_action
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.framework.decision import DecisionLog, Evict
from navarch.scheduler.framework.session import Search
from navarch.scheduler.model.cluster import NodeSpec
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.model.scenario import Scenario
from navarch.scheduler.worlds import (
    NOW,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    ask,
    placed,
    promised,
    stopped,
)

RECLAIM = SchedulerConfig(actions=("reclaim",))


def test_a_task_of_an_elastic_victim_is_evicted_once() -> None:
    """Weakness 15: a gang against one elastic job evicted some of its tasks twice."""
    log = DecisionLog()
    cluster = a_cluster(
        nodes={"a": 4},
        queues=[a_queue("qa", quota=1, weight=0), a_queue("qb", quota=3, weight=0)],
        jobs=[
            a_job("elastic", queue="qa", tasks=4, minimum=1, on="a"),
            a_job("gang", queue="qb", tasks=3),
        ],
    )
    session = open_session(cluster, RECLAIM, sink=log)
    find_action("reclaim")(session)

    evicted = [d.task for d in log.decisions if isinstance(d, Evict)]
    assert sorted(evicted) == ["elastic-1", "elastic-2", "elastic-3"]
    has = session.get_queue_allocated_resources(session.queues.by_name["qa"])
    assert has is not None
    assert gpus(has.gpu) == 1


def test_a_victim_without_gpus_is_moved_to_a_node_without_gpus() -> None:
    """Weakness 3, #1939: such nodes were ignored, so the victim was evicted for good."""
    small = NodeSpec(name="gpu", gpus=1, gpu_count=1, cpu_milli=10, memory_bytes=10)
    plain = NodeSpec(name="plain", cpu_milli=10, memory_bytes=10)
    cluster = a_cluster(
        nodes=[small, plain],
        queues=[a_queue("ours", quota=1, weight=0), a_queue("theirs", quota=0, weight=0)],
        jobs=[
            a_job("helper", queue="theirs", request=ask(cpu_milli=5), on="gpu", age=1),
            a_job("held", queue="theirs", request=ask(1), on="gpu", age=9),
            a_job("wants", queue="ours", request=ask(1, cpu_milli=10)),
        ],
    )

    result = run_cycle(cluster, RECLAIM)

    assert promised(result) == {"helper-0": "plain", "wants-0": "gpu"}
    assert sorted(stopped(result)) == ["held-0", "helper-0"]


def test_nodes_of_a_rejected_scenario_are_not_tried_later() -> None:
    """Weakness 3, #1841: they leaked into the node sets of later scenarios."""
    seen: list[tuple[str, ...]] = []
    cluster = a_cluster(
        nodes={"a": 1, "b": 1, "c": 1},
        jobs=[
            *(a_job(f"low-{n}", on=n, age=i) for i, n in enumerate("abc")),
            a_job("high", priority=75),
        ],
    )
    session = open_session(cluster)
    session.add_node_pre_order_fn(
        lambda task, nodes: (
            seen.append(tuple(node.name for node in nodes)) if task.job.name == "high" else None
        )
    )
    lows = [session.jobs[f"low-{name}"] for name in "abc"]

    def never(_scenario: Scenario) -> bool:
        return False

    search = Search(
        job=session.jobs["high"],
        action="preempt",
        victim_queue=lambda: session.placer.queue(lows, victims=True),
        validate=never,
        reason=lambda _: "",
    )

    assert session.find_victims(search) is None
    assert seen == [("a",), ("b",), ("c",)]


def test_time_comes_from_the_snapshot() -> None:
    """Weakness 11: plugins read the wall clock, so a replay could differ from the original."""
    held = a_job("held", on="a", last_start=NOW)
    cluster = a_cluster(
        nodes={"a": 1},
        queues=[a_queue("queue", preempt_min_runtime=timedelta(hours=1))],
        jobs=[held, a_job("high", priority=75)],
    )
    config = SchedulerConfig(actions=("preempt",))

    assert stopped(run_cycle(cluster, config)) == []
    assert stopped(run_cycle(replace(cluster, now=NOW + timedelta(hours=1)), config)) == ["held-0"]


def test_gpu_memory_is_not_rounded() -> None:
    """Weakness 12: it was rounded down to a multiple of 100 MiB."""
    node = a_node("a", 1, gpu_memory_mib=150)
    jobs = [a_job("x", request=ask(memory_mib=100), age=1), a_job("y", request=ask(memory_mib=50))]

    result = run_cycle(a_cluster(nodes=[node], jobs=jobs))

    assert set(placed(result)) == {"x-0", "y-0"}


def test_a_job_equal_to_a_failed_one_is_skipped_but_an_easier_one_is_tried() -> None:
    tried: list[str] = []
    cluster = a_cluster(
        nodes={"a": 4},
        jobs=[
            a_job("low", gpus=1, on="a", age=9),
            a_job("fixed", gpus=3, on="a", preemptible=False),
            a_job("first", gpus=3, priority=75, age=3),
            a_job("twin", gpus=3, priority=75, age=2),
            a_job("easier", gpus=1, priority=75, age=1),
        ],
    )
    session = open_session(
        cluster, SchedulerConfig(parameters=Parameters(use_scheduling_signatures=True))
    )

    def note(pending: object, _victim: object) -> bool:
        tried.append(pending.name)  # type: ignore[attr-defined]
        return True

    session.add_preempt_victim_filter_fn(note)
    find_action("preempt")(session)

    assert tried == ["first", "easier"]
