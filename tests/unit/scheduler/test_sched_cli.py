"""`navarch sched` on files."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from navarch.cli.sched import sched
from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.plugins.nodeplacement import NodePlacement
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot, render_cluster
from navarch.scheduler.worlds import a_cluster, a_job


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(sched, [str(argument) for argument in arguments])


def a_file(folder: Path) -> Path:
    cluster = a_cluster(nodes={"a": 2}, jobs=[a_job("fits"), a_job("huge", gpus=4)])
    path = folder / "snapshot.json"
    path.write_text(dump_snapshot(Snapshot(cluster=cluster, config=SchedulerConfig())))
    return path


def a_case(status: str = "Binding") -> dict[str, object]:
    cluster = a_cluster(nodes={"a": 2}, jobs=[a_job("fits")])
    limits = {"max_binds": 1, "max_evictions": 0, "max_pipelines": 0}
    return {
        "id": "mine::case#0",
        "harness": {
            "kind": "single_action",
            "actions": ["allocate"],
            "staleness_grace_period_seconds": 0.0,
            "dynamic_resource_allocation_enabled": False,
            "bind_always_fails": False,
            "rounds_until_match": 1,
            "rounds_after_match": 0,
            "plugins": [{"name": "predicates", "arguments": {}}],
            "limits": limits,
        },
        "cluster": render_cluster(cluster),
        "expected": {
            "jobs": {"fits": {"status": status, "gpus_required": 1.0, "node": "a"}},
            "tasks": {},
            "nodes": {},
        },
    }


def test_plan_prints_the_decisions(tmp_path: Path) -> None:
    result = run("plan", a_file(tmp_path))

    assert result.exit_code == 0
    assert "start fits-0 on a" in result.output
    assert "huge stays pending" in result.output


def test_plan_can_check_every_fast_path(tmp_path: Path) -> None:
    file = a_file(tmp_path)

    result = run("plan", file, "--check")

    assert result.exit_code == 0
    assert result.output == run("plan", file).output


def test_a_check_names_the_task_that_a_wrong_vector_form_misplaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = a_cluster(nodes={"a": 2, "b": 4}, jobs=[a_job("one"), a_job("two")])
    path = tmp_path / "snapshot.json"
    path.write_text(dump_snapshot(Snapshot(cluster=cluster, config=SchedulerConfig())))
    monkeypatch.setattr(
        NodePlacement, "_scores", lambda _self, _task, nodes: np.arange(len(nodes), dtype=float)
    )

    result = run("replay", path, "--check")

    assert result.exit_code == 1
    assert "fast path: task one-0 would go to b" in result.output


def test_replay_is_deterministic(tmp_path: Path) -> None:
    file = a_file(tmp_path)

    first, second = run("replay", file), run("replay", file)

    assert first.output == second.output
    assert json.loads(first.output)["decisions"][0]["task"] == "fits-0"


def test_a_snapshot_of_a_snapshot_is_the_same(tmp_path: Path) -> None:
    file, copy = a_file(tmp_path), tmp_path / "copy.json"

    assert run("snapshot", file, "--output", copy).exit_code == 0
    assert copy.read_text() == file.read_text()
    assert run("replay", copy).output == run("replay", file).output


def test_a_seed_can_be_given(tmp_path: Path) -> None:
    result = run("snapshot", a_file(tmp_path), "--seed", "5")

    assert json.loads(result.output)["config"]["parameters"]["seed"] == 5


def test_a_case_is_accepted_wherever_a_snapshot_is(tmp_path: Path) -> None:
    one, many = tmp_path / "case.json", tmp_path / "cases.json"
    one.write_text(json.dumps(a_case()))
    many.write_text(json.dumps({"cases": [a_case(), {**a_case(), "id": "mine::case#1"}]}))

    assert "start fits-0 on a" in run("plan", one).output
    assert "start fits-0 on a" in run("plan", many, "--case", "case#1").output
    assert run("snapshot", many).exit_code == 1


def test_without_a_case_id_all_cases_are_run(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [a_case(), {**a_case(), "id": "mine::case#1"}]}))

    shown = json.loads(run("replay", file).output)

    assert [row["id"] for row in shown["cases"]] == ["mine::case#0", "mine::case#1"]
    assert shown["cases"][0]["digest"] == shown["cases"][1]["digest"]
    assert "mine::case#1\nstart fits-0 on a" in run("plan", file).output


def test_a_bare_cluster_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(a_case()["cluster"]))

    assert "start fits-0 on a" in run("plan", file).output


def test_conformance_reports_every_case(tmp_path: Path) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [a_case(), {**a_case("Pending"), "id": "wrong"}]}))

    result = run("conformance", file, "--json")

    assert result.exit_code == 1
    assert json.loads(result.output) == {
        "cases": [
            {"id": "mine::case#0", "passed": True, "why": ""},
            {
                "id": "wrong",
                "passed": False,
                "why": "job fits: fits-0 is Binding, expected Pending",
            },
        ]
    }
    assert "1 of 2 cases pass" in run("conformance", file).output


def test_an_invalid_case_has_not_passed(tmp_path: Path) -> None:
    broken = a_case()
    del broken["expected"]
    file = tmp_path / "cases.json"
    file.write_text(json.dumps({"cases": [broken]}))

    (row,) = json.loads(run("conformance", file, "--json").output)["cases"]

    assert row["passed"] is False
    assert row["why"] == "refused: cases[0]: expected is missing"


def test_invalid_input_is_reported_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"cluster": {"nodes": [{"name": ""}]}}')

    result = run("plan", file)

    assert result.exit_code == 1
    assert "cluster.nodes[0]" in result.output
    assert "Traceback" not in result.output


def test_plugins_are_listed_with_their_arguments() -> None:
    result = run("plugins")

    assert "nodeplacement  gpu=binpack, cpu=binpack" in result.output
    assert "node_order(task, node) -> float or None  [sum]" in result.output


def test_a_plan_reports_where_a_search_gave_up(tmp_path: Path) -> None:
    cluster = a_cluster(
        nodes={"a": 2},
        jobs=[
            a_job("low", gpus=2, on="a", priority=1, preemptible=True),
            a_job("high", gpus=2, priority=90),
        ],
    )
    path = tmp_path / "snapshot.json"

    def planned(parameters: Parameters, command: str) -> Result:
        config = SchedulerConfig(parameters=parameters)
        path.write_text(dump_snapshot(Snapshot(cluster=cluster, config=config)))
        return run(command, path)

    by_count = planned(Parameters(simulations_per_action=0), "plan")
    by_time = Parameters(seconds_per_action=0.0)

    assert "preempt gave up at job high after 0 simulations" in by_count.output
    assert "preempt gave up at job high after 0 seconds" in planned(by_time, "plan").output
    # A replay must not depend on the speed of the machine.
    assert json.loads(planned(by_time, "replay").output)["gave_up"] == []
