"""Minimum run times protect jobs from other queues."""

from datetime import timedelta

import pytest

from navarch.scheduler.config import DEFAULT_PLUGINS, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.model.cluster import QueueSpec
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_queue, stopped

HOUR = timedelta(hours=1)


def reclaimed(queues: list[QueueSpec], method: str, *, minutes_ago: float = 5) -> bool:
    """Return whether `ours` may reclaim from a job in `theirs` that started this long ago."""
    plugins = tuple(
        PluginConfig(name=p.name, arguments={"reclaimResolveMethod": method})
        if p.name == "minruntime"
        else p
        for p in DEFAULT_PLUGINS
    )
    cluster = a_cluster(
        nodes={"a": 1},
        queues=queues,
        jobs=[
            a_job("held", queue="theirs", on="a", last_start=NOW - timedelta(minutes=minutes_ago)),
            a_job("wants", queue="ours"),
        ],
    )
    return bool(stopped(run_cycle(cluster, SchedulerConfig(actions=("reclaim",), plugins=plugins))))


def departments(**settings: timedelta) -> list[QueueSpec]:
    """Return `ours` and `theirs` under two parents; settings apply to queues by name."""

    def queue(name: str, quota: float, parent: str | None) -> QueueSpec:
        return a_queue(
            name, quota=quota, weight=0, parent=parent, reclaim_min_runtime=settings.get(name)
        )

    return [
        queue("left", 1, None),
        queue("right", 0, None),
        queue("ours", 1, "left"),
        queue("theirs", 0, "right"),
    ]


@pytest.mark.parametrize("method", ["lca", "queue"])
def test_without_a_setting_no_job_is_protected(method: str) -> None:
    assert reclaimed(departments(), method)


def test_the_setting_of_the_victims_own_queue_applies_if_configured() -> None:
    assert not reclaimed(departments(theirs=HOUR), "queue")
    assert reclaimed(departments(theirs=HOUR), "queue", minutes_ago=60)


def test_otherwise_the_setting_of_its_diverging_ancestor_applies() -> None:
    assert reclaimed(departments(theirs=HOUR), "lca")
    assert not reclaimed(departments(right=HOUR), "lca")


def test_settings_are_inherited() -> None:
    assert not reclaimed(departments(right=HOUR), "queue")


def test_the_reclaimers_own_settings_do_not_matter() -> None:
    assert reclaimed(departments(ours=HOUR, left=HOUR), "lca")
