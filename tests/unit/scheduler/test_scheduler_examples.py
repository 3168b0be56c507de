"""The example plugins work."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler.config import PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.worlds import a_cluster, a_job, a_node, placed

EXAMPLES = Path(__file__).parents[3] / "examples" / "scheduler"
SPOT = {"kai.scheduler/instance-type": "spot"}


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_spot_nodes_receive_no_non_preemptible_tasks() -> None:
    spot = example("spot_instances")
    jobs = [a_job("fixed", gpus=2, preemptible=False), a_job("flexible", gpus=2)]
    cluster = a_cluster(nodes=[a_node("s", 8, labels=SPOT)], jobs=jobs)

    result = run_cycle(cluster, spot.CONFIG, registry=spot.registry())

    assert placed(result) == {"flexible-0": "s"}
    (refusal,) = result.unschedulable_tasks["fixed"]["fixed-0"]
    assert refusal.plugin == "spot-instance-manager"
    assert refusal.reason == "non-preemptible task fixed-0 cannot be on spot instance s"


def test_other_nodes_are_preferred_to_spot_nodes() -> None:
    spot = example("spot_instances")
    nodes = [a_node("a-spot", 1, labels=SPOT), a_node("b-fixed", 8)]

    result = run_cycle(
        a_cluster(nodes=nodes, jobs=[a_job("job")]), spot.CONFIG, registry=spot.registry()
    )

    assert placed(result) == {"job-0": "b-fixed"}


def test_the_spot_plugin_is_configured_like_any_other() -> None:
    spot = example("spot_instances")
    plugin = PluginConfig(name="spot-instance-manager", arguments={"spotLabelValue": "cheap"})
    nodes = [a_node("a", labels={"kai.scheduler/instance-type": "cheap"})]
    cluster = a_cluster(nodes=nodes, jobs=[a_job("fixed", preemptible=False)])

    result = run_cycle(cluster, SchedulerConfig(plugins=(plugin,)), registry=spot.registry())
    assert placed(result) == {}

    typo = PluginConfig(name="spot-instance-manager", arguments={"spotLabel": "cheap"})
    with pytest.raises(InvalidError, match="no argument 'spotLabel'"):
        run_cycle(cluster, SchedulerConfig(plugins=(typo,)), registry=spot.registry())


def test_the_spot_example_runs_as_a_program() -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / "spot_instances.py"], capture_output=True, check=True, text=True
    )

    assert "start may-stop-0 on spot" in run.stdout
    assert "must-run stays pending" in run.stdout


def test_the_tracker_counts_committed_placements_and_not_trials() -> None:
    tracker = example("namespace_tracker").NamespaceAllocationTracker()
    jobs = [
        a_job("one", tasks=2, namespace="team-a"),
        a_job("two", tasks=3, gpus=4, namespace="team-b"),
        a_job("held", namespace="team-c", on="n"),
    ]
    session = open_session(a_cluster(nodes={"n": 8}, jobs=jobs))
    session.add_plugin(tracker)

    from navarch.scheduler.actions import find_action

    find_action("allocate")(session)

    # The gang of team-b was placed in part and rolled back; team-c was running before.
    assert {k: v for k, v in tracker.tasks_per_namespace.items() if v} == {"team-a": 2}


def test_the_gpu_predicate_returns_a_reason() -> None:
    rules = example("gpu_rules")
    jobs = [a_job("held", gpus=2, on="n"), a_job("job")]
    session = open_session(a_cluster(nodes={"n": 2}, jobs=jobs))
    task, job, node = session.jobs["job"].tasks["job-0"], session.jobs["job"], session.nodes["n"]

    assert rules.gpu_predicate(task, job, node) == "node n has no available GPUs"


def test_both_forms_of_the_utilisation_score_agree() -> None:
    from navarch.scheduler.framework.node_table import NodeTable

    rules = example("gpu_rules")
    jobs = [a_job("x", gpus=1, on="a"), a_job("y", gpus=3, on="b"), a_job("job")]
    session = open_session(a_cluster(nodes={"a": 4, "b": 4, "c": 4}, jobs=jobs))
    task, nodes = session.jobs["job"].tasks["job-0"], list(session.nodes.values())

    columns = rules.gpu_utilization_scores(task, NodeTable(nodes))

    assert list(columns) == [rules.gpu_utilization_score(task, node) for node in nodes]


def test_a_vectorised_score_decides_the_node() -> None:
    rules = example("gpu_rules")
    jobs = [a_job("x", gpus=1, on="a"), a_job("y", gpus=3, on="b"), a_job("job")]
    session = open_session(
        a_cluster(nodes={"a": 4, "b": 4, "c": 4}, jobs=jobs), SchedulerConfig(plugins=())
    )
    session.add_plugin(rules.GpuRules())
    task = session.jobs["job"].tasks["job-0"]

    ranked = session.score_nodes(task, list(session.nodes.values()))

    assert [node.name for _, node in ranked] == ["b", "a", "c"]
