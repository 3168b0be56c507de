"""The foresight plugin."""

from typing import Any

import numpy as np
import pytest
from bench.scheduler_workloads import random_cluster
from hypothesis import given
from hypothesis import strategies as st

from navarch.scheduler import Bind, PluginConfig, SchedulerConfig, open_session, run_cycle
from navarch.scheduler.config import DEFAULT_PLUGINS, OWN_PLUGINS
from navarch.scheduler.cycle import run_checked_cycle
from navarch.scheduler.model.cluster import NodeSpec
from navarch.scheduler.packing.shape import Shape
from navarch.scheduler.plugins import built_in_plugins, foresight, scores
from navarch.scheduler.plugins.foresight import gpus_left, shape_of
from navarch.scheduler.snapshot.document import read_document
from navarch.scheduler.snapshot.snapshot import parse_snapshot
from navarch.scheduler.worlds import a_cluster, a_job, a_node, ask, placed

OWN = SchedulerConfig(plugins=OWN_PLUGINS)
CORES, GIB = 1000, 1 << 30


def node(name: str, gpus: int = 8, cores: int = 96, **facts: Any) -> NodeSpec:  # noqa: ANN401
    return a_node(name, gpus, cpu_milli=cores * CORES, memory_bytes=512 * GIB, **facts)


def test_own_plugins_pack_with_foresight_and_add_victim_cost_and_soft_taints() -> None:
    default, own = (
        {plugin.name for plugin in plugins} for plugins in (DEFAULT_PLUGINS, OWN_PLUGINS)
    )

    assert own - default == {"foresight", "victimcost", "softtaints"}
    assert default - own == {"nodeplacement", "gpupack", "gpusharingorder"}


def test_foresight_is_a_built_in_plugin() -> None:
    assert "foresight" in built_in_plugins().names()


def test_tasks_avoid_nodes_that_others_depend_on() -> None:
    cluster = a_cluster(
        nodes=[node("a-wanted", labels={"gpu": "w"}), node("b-plain"), node("c-plain")],
        jobs=[
            a_job("easy", tasks=4),
            a_job("picky", on="a-wanted", tasks=3, task={"node_selector": {"gpu": "w"}}),
        ],
    )

    assert "a-wanted" not in placed(run_cycle(cluster, OWN)).values()
    assert set(placed(run_cycle(cluster)).values()) == {"a-wanted"}  # fills the node in use


def test_tasks_without_gpus_go_to_nodes_with_used_gpus() -> None:
    cluster = a_cluster(
        nodes=[node("a-idle"), node("b-taken")],
        jobs=[
            a_job("gpu", tasks=8, request=ask(1, cpu_milli=10 * CORES), on="b-taken"),
            a_job("cpu", request=ask(cpu_milli=16 * CORES)),
        ],
    )

    assert placed(run_cycle(cluster, OWN))["cpu-0"] == "b-taken"


def test_a_gpu_fraction_goes_where_the_rest_will_be_used() -> None:
    half, most = ask(0.5), ask(0.8)
    cluster = a_cluster(
        nodes=[node("a", gpus=2)],
        jobs=[
            a_job("half", request=half, on="a", groups=["g1"]),
            a_job("most", request=most, on="a", groups=["g2"]),
            a_job("new", request=half),
        ],
    )
    result = run_cycle(cluster, OWN)

    assert placed(result) == {"new-0": "a"}
    assert [d.gpu_groups for d in result.decisions if isinstance(d, Bind)] == [("g1",)]


@pytest.mark.parametrize("gpus", [0, 1, 0.5, 8])
def test_the_score_stays_within_the_density_band(gpus: float) -> None:
    cluster = a_cluster(
        nodes=[node("a"), node("b", gpus=2)], jobs=[a_job("job", gpus=gpus), a_job("x", on="a")]
    )
    session = open_session(cluster, SchedulerConfig(plugins=(PluginConfig(name="foresight"),)))
    task = session.jobs["job"].tasks["job-0"]

    for score, _ in session.score_nodes(task, list(session.nodes.values())):
        assert 0 < score < scores.MAX_DENSITY


def test_a_list_of_plugins_in_a_snapshot_takes_precedence() -> None:
    document = b"""{"cluster": {"nodes": [], "queues": [], "jobs": []},
        "config": {"plugins": [{"name": "predicates", "arguments": {}}]}}"""

    listed = parse_snapshot(read_document(document)).config

    assert [plugin.name for plugin in listed.plugins] == ["predicates"]


def test_an_empty_cluster_causes_no_error() -> None:
    assert run_cycle(a_cluster(nodes=[]), OWN).decisions == ()
    assert placed(run_cycle(a_cluster(nodes={"a": 1}, jobs=[a_job("j")]), OWN)) == {"j-0": "a"}


def test_requests_are_counted_in_thousandths_of_gpus() -> None:
    requests = {
        "whole": ask(2, cpu_milli=5),
        "part": ask(0.25),
        "memory": ask(memory_mib=40),
        "mig": ask(mig={"nvidia.com/mig-3g.20gb": 1}),
        "none": ask(cpu_milli=7),
    }
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job(n, request=r) for n, r in requests.items()])
    session = open_session(cluster, OWN)

    shapes = {name: shape_of(job.tasks[f"{name}-0"]) for name, job in session.jobs.items()}

    assert shapes["whole"] == Shape(5, 0, 2, 1000)
    assert shapes["part"] == Shape(0, 0, 1, 250)
    assert shapes["memory"] == Shape(
        0, 0, 1, 400
    )  # relative to the smallest GPU, which has 100 MiB
    assert shapes["mig"] == Shape(0, 0, 3, 1000)
    assert shapes["none"] == Shape(7, 0, 0, 0)


def test_the_rest_of_gpus_includes_shared_gpus() -> None:
    cluster = a_cluster(
        nodes={"a": 4},
        jobs=[
            a_job("part", request=ask(0.3), on="a", groups=["g"]),
            a_job("whole", gpus=1, on="a"),
        ],
    )

    assert gpus_left(open_session(cluster, OWN).nodes["a"]) == [1000, 1000, 700]


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_vector_scores_equal_scalar_scores(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise so few nodes are grouped one by one.
    monkeypatch.setattr(foresight, "FEW", seed % 4)
    monkeypatch.setattr(foresight, "KINDS_MAX", 3)

    run_checked_cycle(random_cluster(seed), OWN)


def test_the_random_clusters_include_plain_and_other_ones() -> None:
    plain = [foresight._Outlook(open_session(random_cluster(seed), OWN)).is_plain for seed in SEEDS]
    assert {True, False} == set(plain)
    assert sum(plain) > 20


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 2), max_size=40),
    st.integers(0, 5),
    st.integers(0, 20),
)
def test_equal_rows_are_grouped_in_order_of_occurrence(
    rows: list[tuple[int, int]], kinds_max: int, few: int
) -> None:
    expected: dict[tuple[int, ...], list[int]] = {}
    for number, row in enumerate(rows):
        expected.setdefault(row, []).append(number)
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foresight, "KINDS_MAX", kinds_max)
        patch.setattr(foresight, "FEW", few)
        found = [(tuple(each), where.tolist()) for each, where in foresight._together([*table.T])]

    assert found == list(expected.items())
