"""Input that makes no sense is refused, and the complaint names the field."""

import copy
import json
import re
from typing import Any

import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.snapshot.document import Field, read_document
from navarch.scheduler.snapshot.snapshot import (
    Snapshot,
    check_cluster,
    load_snapshot,
    render_snapshot,
)
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask
from navarch.testing.scheduler_conformance.load import load_any

NAN = float("nan")


def good() -> dict[str, Any]:
    cluster = a_cluster(
        nodes=[a_node("a", 4)],
        queues=[a_queue("top"), a_queue("queue", parent="top")],
        jobs=[
            a_job("running", on="a"),
            a_job("half", request=ask(0.5)),
            a_job("memory", request=ask(memory_mib=5)),
        ],
    )
    return render_snapshot(Snapshot(cluster=cluster, config=SchedulerConfig()))


def changed(path: str, value: object) -> str:
    """Return a good snapshot in which the field at `path` is `value`."""
    document = copy.deepcopy(good())
    *way, last = re.findall(r"[^.\[\]]+", path)
    place: Any = document
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(document)


def test_a_good_snapshot_is_not_refused() -> None:
    assert len(load_snapshot(json.dumps(good())).cluster.jobs) == 3


NODE, QUEUE, JOB = "cluster.nodes[0]", "cluster.queues[0]", "cluster.jobs[2]"
TASK = f"{JOB}.tasks[0]"


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (f"{NODE}.allocatable.cpu_milli", -1, "must be at least 0"),
        (f"{NODE}.allocatable.gpus", 1.5, "must be a whole number"),
        (f"{NODE}.allocatable.memory_bytes", NAN, "must be finite"),
        (f"{NODE}.allocatable.pods", "many", "must be a number"),
        (f"{NODE}.allocatable.mig", {"x": -1}, "must be at least 0"),
        (f"{NODE}.gpu_memory_mib", 0, "must be at least 1"),
        (f"{NODE}.name", "", "must not be empty"),
        (f"{NODE}.labels", {"x": 1}, "must be a text"),
        (f"{NODE}.health", {"happy": True}, "unknown field"),
        (f"{NODE}.health.ready", "yes", "must be true or false"),
        (f"{NODE}.colour", "red", "unknown field"),
        (f"{QUEUE}.resources.gpu.quota", -2, "at least 0, or -1"),
        (f"{QUEUE}.resources.gpu.limit", float("inf"), "must be finite"),
        (f"{QUEUE}.resources.cpu.over_quota_weight", NAN, "must be finite"),
        (f"{QUEUE}.parent", "nobody", "no queue is called 'nobody'"),
        (f"{QUEUE}.priority", 1.5, "must be a whole number"),
        (f"{JOB}.queue", "nobody", "no queue is called 'nobody'"),
        (f"{JOB}.queue", "top", "so it cannot have jobs"),
        (f"{JOB}.priority", None, None),
        (f"{JOB}.preemptible", 1, "must be true or false"),
        (f"{JOB}.created_minutes_ago", NAN, "must be finite"),
        (f"{JOB}.root_sub_group_set.pod_sets[0].min_available", -1, "must be at least 0"),
        (f"{JOB}.tasks", {}, "must be a list"),
        (f"{TASK}.node", "b", "no node is called 'b'"),
        (f"{TASK}.status", "Runing", "is not one of"),
        (f"{TASK}.sub_group", "nobody", "no pod set 'nobody'"),
        (f"{TASK}.request.cpu_milli", -5, "must be at least 0"),
        (f"{TASK}.request.memory_bytes", NAN, "must be finite"),
        (f"{TASK}.request.gpu.type", "some", "is not one of"),
        (f"{TASK}.request.gpu.count", -1, "must be at least 0"),
        ("cluster.jobs[0].tasks[0].request.gpu.fraction", 1.5, "must be at most 1"),
        ("cluster.jobs[0].tasks[0].request.gpu.fraction", 0, "must be at least 0.01"),
        ("cluster.jobs[0].tasks[0].request.gpu.devices", 0, "must be at least 1"),
        ("cluster.jobs[1].tasks[0].request.gpu.memory_mib", -7, "must be at least 1"),
        ("cluster.usage", {"nobody": {"gpu": 0.5}}, "no queue is called 'nobody'"),
        ("cluster.usage", {"queue": {"gpu": 1.5}}, "must be at most 1"),
        ("cluster.min_node_gpu_memory_mib", 0, "must be at least 1"),
        ("now", "yesterday", "must be a time"),
        ("now", "2026-01-01T00:00:00", "must say its time zone"),
        ("schema", 2, "only schema 1"),
        ("config.parameters.seed", 0.5, "must be a whole number"),
        ("config.parameters.speed", 1, "unknown field"),
        ("config.plugins[0].name", "", "must not be empty"),
    ],
)
def test_nonsense_is_refused_with_its_path(path: str, value: object, complaint: str | None) -> None:
    text = changed(path, value)

    if complaint is None:
        load_snapshot(text)
        return
    with pytest.raises(InvalidError) as caught:
        load_snapshot(text)
    assert str(caught.value).startswith(path)
    assert complaint in str(caught.value)


def test_queues_in_a_circle_are_refused() -> None:
    document = good()
    document["cluster"]["queues"][1]["parent"] = "queue"

    with pytest.raises(InvalidError, match=r"^cluster\.queues\[0\]\.parent: queues form a cycle: "):
        load_snapshot(json.dumps(document))


def test_a_queue_that_is_its_own_parent_is_refused() -> None:
    document = good()
    document["cluster"]["queues"][1]["parent"] = "top"

    with pytest.raises(InvalidError, match=r"^cluster\.queues\[1\]\.parent: .* cycle: top > top"):
        load_snapshot(json.dumps(document))


@pytest.mark.parametrize("key", ["nodes", "queues", "jobs"])
def test_two_things_of_the_same_name_are_refused(key: str) -> None:
    document = good()
    document["cluster"][key].append(copy.deepcopy(document["cluster"][key][0]))

    with pytest.raises(InvalidError, match=rf"^cluster\.{key}\[\d\]\.name: .* is there twice"):
        load_snapshot(json.dumps(document))


def test_two_tasks_of_the_same_uid_are_refused() -> None:
    document = good()
    document["cluster"]["jobs"][1]["tasks"][0]["uid"] = "half-0"

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[1\]\.tasks\[0\]\.uid"):
        load_snapshot(json.dumps(document))


def test_a_running_task_without_a_node_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[2\]\.tasks\[0\]: .* on a node"):
        load_snapshot(changed(f"{TASK}.node", None))


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '{"schema": 1}', "\xff", '{"cases": 1}'])
def test_files_of_another_kind_are_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        load_any(read_document(text.encode("latin-1")))


def test_deeply_nested_files_are_refused() -> None:
    with pytest.raises(InvalidError):
        load_any(read_document("[" * 100_000))


def test_a_missing_field_is_named() -> None:
    document = good()
    del document["cluster"]["jobs"][0]["queue"]

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[0\]: queue is missing"):
        load_snapshot(json.dumps(document))


def test_of_several_cases_one_must_be_named() -> None:
    with pytest.raises(InvalidError, match="several cases"):
        load_any(Field({"cases": [{"id": "x"}, {"id": "y"}]}))
    with pytest.raises(InvalidError, match="0 cases"):
        load_any(Field({"cases": [{"id": "x"}, {"id": "y"}]}), "z")


def test_a_cluster_built_in_code_can_be_checked_as_well() -> None:
    check_cluster(a_cluster(nodes={"a": 1}, jobs=[a_job("job", on="a")]))

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[0\]\.tasks\[0\]\.node: no node"):
        check_cluster(a_cluster(nodes={"a": 1}, jobs=[a_job("job", on="b")]))
