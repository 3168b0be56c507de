"""Optional plugins: victim cost, ageing, GPU type quotas, reservations."""

from datetime import timedelta
from typing import Any

import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler import CycleResult, PluginConfig, SchedulerConfig, run_cycle
from navarch.scheduler.config import DEFAULT_PLUGINS, Parameters
from navarch.scheduler.model.cluster import Cluster, JobSpec, NodeSpec
from navarch.scheduler.plan import reasons
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot, load_snapshot
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_node, a_queue, placed, stopped

HOUR = timedelta(hours=1)


def cycle(
    cluster: Cluster, plugin: str, *, first: bool = False, **arguments: object
) -> CycleResult:
    extra = (PluginConfig(name=plugin, arguments=arguments),)
    plugins = (*extra, *DEFAULT_PLUGINS) if first else (*DEFAULT_PLUGINS, *extra)
    return run_cycle(cluster, SchedulerConfig(plugins=plugins))


def contest(**facts: dict[str, Any]) -> Cluster:
    """Return two full nodes, and a job of higher priority than those on them."""
    running = [
        a_job(name, gpus=8, on=name, last_start=NOW - HOUR, **f) for name, f in facts.items()
    ]
    urgent = a_job("urgent", gpus=8, priority=90)
    return a_cluster(nodes=dict.fromkeys(facts, 8), jobs=[*running, urgent])


def test_the_job_with_the_latest_checkpoint_is_evicted_first() -> None:
    cluster = contest(
        a={"age": 5, "checkpointed_at": NOW - timedelta(minutes=50)},
        b={"age": 9, "checkpointed_at": NOW - timedelta(minutes=1)},
    )

    assert stopped(run_cycle(cluster)) == ["a-0"]
    assert stopped(cycle(cluster, "victimcost")) == ["b-0"]


def test_priority_outweighs_lost_work() -> None:
    cluster = contest(a={"priority": 60, "checkpointed_at": NOW}, b={"priority": 50})

    assert stopped(cycle(cluster, "victimcost")) == ["b-0"]


def test_a_small_gang_is_evicted_rather_than_a_large_one() -> None:
    saved: dict[str, Any] = {"last_start": NOW, "checkpointed_at": NOW}
    large = a_job("large", tasks=2, gpus=8, on=["a", "b"], age=5, **saved)
    small = a_job("small", gpus=8, on="c", age=9, **saved)
    cluster = a_cluster(
        nodes={"a": 8, "b": 8, "c": 8}, jobs=[large, small, a_job("urgent", gpus=8, priority=90)]
    )

    assert sorted(stopped(run_cycle(cluster))) == ["large-0", "large-1"]
    assert stopped(cycle(cluster, "victimcost")) == ["small-0"]
    assert "small-0" not in stopped(cycle(cluster, "victimcost", gangWeight=0))


def test_a_job_without_disruption_budget_is_not_evicted() -> None:
    cluster = contest(a={"disruptions_allowed": 0}, b={})

    assert stopped(cycle(cluster, "victimcost")) == ["b-0"]
    assert stopped(cycle(contest(a={"disruptions_allowed": 0}), "victimcost")) == []


def test_a_job_loses_no_more_tasks_than_its_disruption_budget() -> None:
    def world(allowed: int) -> Cluster:
        wide = a_job(
            "wide", tasks=8, minimum=1, gpus=1, on="a", last_start=NOW, disruptions_allowed=allowed
        )
        return a_cluster(nodes={"a": 8}, jobs=[wide, a_job("urgent", gpus=4, priority=90)])

    assert stopped(cycle(world(3), "victimcost")) == []
    assert len(stopped(cycle(world(4), "victimcost"))) == 4


def moved(*jobs: JobSpec, nodes: dict[str, int]) -> list[str]:
    """Return the jobs that are moved so that others fit."""
    plugins = (*DEFAULT_PLUGINS, PluginConfig(name="victimcost"))
    parameters = Parameters(max_consolidation_victims=16)
    config = SchedulerConfig(plugins=plugins, parameters=parameters)
    return stopped(run_cycle(a_cluster(nodes=nodes, jobs=jobs), config))


@pytest.mark.parametrize(("allowed", "times"), [(None, 1), (1, 1), (0, 0)])
def test_a_job_without_disruption_budget_is_not_moved(allowed: int | None, times: int) -> None:
    running = [a_job(name, on=name, disruptions_allowed=allowed) for name in "ab"]

    assert len(moved(*running, a_job("big", gpus=2), nodes={"a": 2, "b": 2})) == times


@pytest.mark.parametrize(("allowed", "expected"), [(2, ["pair-0", "pair-1"]), (1, [])])
def test_a_gang_with_a_budget_of_one_task_is_not_moved_completely(
    allowed: int, expected: list[str]
) -> None:
    pair = a_job("pair", tasks=2, on="a", disruptions_allowed=allowed)
    fixed = a_job("fixed", on="b", disruptions_allowed=0)

    assert sorted(moved(pair, fixed, a_job("big", gpus=3), nodes={"a": 3, "b": 3})) == expected


def test_ageing_serves_a_job_that_waited_long_first() -> None:
    jobs = [a_job("patient", gpus=8, age=60 * 30), a_job("new", gpus=8, priority=60)]
    cluster = a_cluster(nodes={"a": 8}, jobs=jobs)

    assert placed(run_cycle(cluster)) == {"new-0": "a"}
    assert placed(cycle(cluster, "ageing", first=True)) == {"patient-0": "a"}
    assert placed(cycle(cluster, "ageing", first=True, pointsMax=5)) == {"new-0": "a"}


def typed(name: str, kind: str) -> NodeSpec:
    return a_node(name, labels={"nvidia.com/gpu.product": kind})


def test_a_queue_gets_no_more_gpus_of_a_type_than_its_quota() -> None:
    cluster = a_cluster(
        nodes=[typed("a", "H100"), typed("b", "L4")],
        queues=[a_queue("top"), a_queue("team", parent="top")],
        jobs=[a_job(f"job{i}", queue="team", gpus=4, age=9 - i) for i in range(4)],
    )

    result = cycle(cluster, "gputypequota", limits="top/H100=4")

    assert sorted(placed(result).values()) == ["a", "b", "b"]
    (waiting,) = {f"job{i}" for i in range(4)} - {uid[:-2] for uid in placed(result)}
    assert any("4 GPUs of type H100, in use 4" in text for text in reasons(result, waiting))


@pytest.mark.parametrize(
    ("limit", "started"),
    [
        ("h100=8", 1),
        ("NVIDIA-H100-80GB-HBM3=8", 1),
        ("h100-8x=8", 1),
        ("h100-4x=8", 2),
        ("L4=8", 2),
    ],
)
def test_a_gpu_type_in_a_quota_matches_every_label_of_that_type(limit: str, started: int) -> None:
    cluster = a_cluster(
        nodes=[typed(name, "NVIDIA-H100-80GB-HBM3") for name in "ab"],
        queues=[a_queue("team")],
        jobs=[a_job(f"job{i}", queue="team", gpus=8) for i in range(2)],
    )

    assert len(placed(cycle(cluster, "gputypequota", limits=f"team/{limit}"))) == started


def test_the_narrower_of_two_quotas_for_one_gpu_type_applies() -> None:
    cluster = a_cluster(
        nodes=[typed("a", "H100-SXM")],
        queues=[a_queue("team")],
        jobs=[a_job(f"job{i}", queue="team", gpus=2) for i in range(4)],
    )

    result = cycle(cluster, "gputypequota", limits="team/h100=6,team/h100-sxm=4")

    assert len(placed(result)) == 2


def test_an_invalid_quota_is_rejected() -> None:
    with pytest.raises(InvalidError, match="queue/type=GPUs"):
        cycle(a_cluster(nodes={"a": 8}), "gputypequota", limits="top:H100=4")


def test_nodes_are_reserved_for_a_large_gang_and_backfilled_by_short_work() -> None:
    ends_in_two_hours: dict[str, Any] = {"last_start": NOW, "expected_runtime": 2 * HOUR}
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        jobs=[
            a_job("busy", gpus=8, on="a", **ends_in_two_hours),
            a_job("large", tasks=2, gpus=8, age=9),
            a_job("short", gpus=4, age=5, expected_runtime=HOUR),
            a_job("long", gpus=4, age=5, expected_runtime=9 * HOUR),
            a_job("unknown", gpus=4, age=5),
        ],
    )

    result = cycle(cluster, "reservation", gpusMin=16)

    assert placed(result) == {"short-0": "b"}
    assert any("reserved for job large" in text for text in reasons(result, "long"))


def hour_in_which_it_starts(*plugins: str) -> int | None:
    """Return when a gang of two nodes starts if a two-hour job for one node arrives every hour."""
    config = SchedulerConfig(
        actions=("allocate",),
        plugins=(
            *DEFAULT_PLUGINS,
            *(PluginConfig(name=name, arguments={"gpusMin": 16}) for name in plugins),
        ),
    )
    started: dict[str, tuple[int, str]] = {"first": (0, "a")}
    for hour in range(1, 12):
        running = {name: at for name, at in started.items() if at[0] + 2 > hour}
        jobs = [
            a_job(
                name,
                gpus=8,
                on=node,
                expected_runtime=2 * HOUR,
                last_start=NOW - (hour - since) * HOUR,
            )
            for name, (since, node) in running.items()
        ]
        jobs += [
            a_job(f"small{n}", gpus=8, age=60 * (hour - n), expected_runtime=2 * HOUR)
            for n in range(1, hour + 1)
            if f"small{n}" not in started
        ]
        gang = a_job("gang", tasks=2, gpus=8, age=60 * hour - 30)
        result = run_cycle(a_cluster(nodes={"a": 8, "b": 8}, jobs=[*jobs, gang]), config)
        found = placed(result)
        if "gang-0" in found:
            return hour
        started |= {uid.removesuffix("-0"): (hour, node) for uid, node in found.items()}
    return None


def test_a_large_gang_starves_beside_small_work_without_a_reservation() -> None:
    assert hour_in_which_it_starts() is None
    assert hour_in_which_it_starts("reservation") == 2  # when the first job ends


def test_a_node_with_work_of_unknown_length_is_not_reserved() -> None:
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        jobs=[
            a_job("endless", gpus=8, on="a", last_start=NOW),
            a_job("large", tasks=2, gpus=8, age=9),
            a_job("long", gpus=8, age=5),
        ],
    )

    assert placed(cycle(cluster, "reservation", gpusMin=16)) == {"long-0": "b"}


def test_a_gang_over_its_queue_limit_gets_no_reservation() -> None:
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        queues=[a_queue("queue"), a_queue("small", limit=8)],
        jobs=[
            a_job("large", tasks=2, gpus=8, age=9, queue="small"),
            a_job("other", tasks=2, gpus=8, age=5),
        ],
    )

    assert sorted(placed(cycle(cluster, "reservation", gpusMin=16))) == ["other-0", "other-1"]


def test_disruption_settings_survive_a_snapshot() -> None:
    job = a_job("job", checkpointed_at=NOW - HOUR, disruptions_allowed=2, expected_runtime=HOUR)
    snapshot = Snapshot(cluster=a_cluster(nodes={"a": 8}, jobs=[job]), config=SchedulerConfig())

    (again,) = load_snapshot(dump_snapshot(snapshot)).cluster.jobs

    assert again == job
