"""Invalid input is rejected with the path of the field."""

import copy
import json
import re
from typing import Any, cast

import pytest

from navarch.core.errors import InvalidError
from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.snapshot.document import read_document
from navarch.scheduler.snapshot.snapshot import (
    Snapshot,
    check_cluster,
    dump_snapshot,
    load_snapshot,
)
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue, ask
from navarch.testing.scheduler_conformance.case import load_any

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
    snapshot = Snapshot(cluster=cluster, config=SchedulerConfig())
    return cast("dict[str, Any]", json.loads(dump_snapshot(snapshot)))


def changed(path: str, value: object) -> str:
    """Return a good snapshot in which the field at `path` is `value`."""
    document = copy.deepcopy(good())
    *way, last = re.findall(r"[^.\[\]]+", path)
    place: Any = document
    for step in way:
        place = place[int(step)] if step.isdigit() else place[step]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(document)


def test_a_good_snapshot_is_accepted() -> None:
    assert len(load_snapshot(json.dumps(good())).cluster.jobs) == 3


FIRST = "cluster.jobs[0].tasks[0].request.gpu"
NODE, QUEUE, JOB = "cluster.nodes[0]", "cluster.queues[0]", "cluster.jobs[2]"
TASK = f"{JOB}.tasks[0]"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (f"{NODE}.allocatable.cpu_milli", -1, "must be a number >= 0.0, not -1"),
        (f"{NODE}.allocatable.gpus", 1.5, "must be a whole number, not 1.5"),
        (f"{NODE}.allocatable.memory_bytes", NAN, "must be a number, not 'NaN'"),
        (f"{NODE}.allocatable.pods", "many", "must be a whole number, not 'many'"),
        (f"{NODE}.allocatable.mig", {"x": -1}, "mig.x: must be a whole number >= 0, not -1"),
        (f"{NODE}.gpu_memory_mib", 0, "must be a whole number >= 1, not 0"),
        (f"{NODE}.name", "", "must be text of length >= 1, not ''"),
        (f"{NODE}.labels", {"x": 1}, "labels.x: must be text, not 1"),
        (f"{NODE}.labels", {"x": None}, "labels.x: must be text, not None"),
        (f"{NODE}.health", {"happy": True}, "health.happy: unknown field; known fields: cordoned"),
        (f"{NODE}.health.ready", "yes", "must be true or false"),
        (f"{NODE}.colour", "red", "unknown field; known fields: allocatable, dra_gpus"),
        (f"{QUEUE}.resources.gpu.quota", -2, "at least 0, or -1"),
        (f"{QUEUE}.resources.gpu.limit", float("inf"), "must be a number, not 'Infinity'"),
        (f"{QUEUE}.resources.cpu.over_quota_weight", NAN, "must be a number, not 'NaN'"),
        (f"{QUEUE}.parent", "missing", "no queue is called 'missing'"),
        (f"{QUEUE}.priority", 1.5, "must be a whole number"),
        (f"{JOB}.queue", "missing", "no queue is called 'missing'"),
        (f"{JOB}.queue", "top", "has child queues, so it cannot have jobs"),
        (f"{JOB}.priority", None, None),
        (f"{JOB}.preemptible", 1, "must be true or false"),
        (f"{JOB}.created_minutes_ago", NAN, "must be a number, not 'NaN'"),
        (
            f"{JOB}.root_sub_group_set.pod_sets[0].min_available",
            -1,
            "must be a whole number >= 0, not -1",
        ),
        (f"{JOB}.created_minutes_ago", 1e300, "must be a number <= 1000000000.0"),
        (f"{JOB}.tasks", {}, "must be a list"),
        (f"{TASK}.node", "b", "no node is called 'b'"),
        (f"{TASK}.status", "Runing", "is not one of"),
        (f"{TASK}.sub_group", "missing", "no pod set 'missing'"),
        (f"{TASK}.order_priority", True, "must be a whole number or a number or text"),
        (f"{TASK}.request.cpu_milli", -5, "must be a number >= 0.0, not -5"),
        (f"{TASK}.request.memory_bytes", NAN, "must be a number, not 'NaN'"),
        (f"{TASK}.request.gpu.type", "some", "'some' is not one of none, whole"),
        (f"{TASK}.request.gpu.count", -1, "must be a whole number >= 0, not -1"),
        (FIRST, {"type": "fraction"}, "gpu: fraction is missing"),
        (f"{FIRST}.fraction", 1.5, "must be a number <= 1.0, not 1.5"),
        (f"{FIRST}.fraction", 0, "must be a number >= 0.01, not 0"),
        (f"{FIRST}.devices", 0, "must be a whole number >= 1, not 0"),
        (
            "cluster.jobs[1].tasks[0].request.gpu.memory_mib",
            -7,
            "must be a whole number >= 1, not -7",
        ),
        ("cluster.usage", {"missing": {"gpu": 0.5}}, "no queue is called 'missing'"),
        ("cluster.usage", {"queue": {"gpu": 1.5}}, "usage.queue.gpu: must be a number <= 1.0"),
        ("cluster.min_node_gpu_memory_mib", 0, "must be a whole number >= 1, not 0"),
        ("now", "yesterday", "must be a time such as 2026-01-01T00:00:00+00:00"),
        ("now", "2026-01-01T00:00:00", "must be a time with a timezone component"),
        ("now", "0001-01-01T00:00:00+14:00", "must be in the years 1971 to 2499"),
        ("schema", 2, "only schema 1"),
        ("config.parameters.seed", 0.5, "must be a whole number"),
        ("config.parameters.speed", 1, "unknown field"),
        ("config.plugins[0].name", "", "must be text of length >= 1, not ''"),
    ],
)
def test_an_invalid_field_is_rejected_with_its_path(
    path: str, value: object, message: str | None
) -> None:
    text = changed(path, value)

    if message is None:
        load_snapshot(text)
        return
    with pytest.raises(InvalidError) as caught:
        load_snapshot(text)
    assert str(caught.value).startswith(path)
    assert message in str(caught.value)


def test_queues_in_a_cycle_are_rejected() -> None:
    document = good()
    document["cluster"]["queues"][1]["parent"] = "queue"

    with pytest.raises(InvalidError, match=r"^cluster\.queues\[0\]\.parent: queues form a cycle: "):
        load_snapshot(json.dumps(document))


def test_a_queue_that_is_its_own_parent_is_rejected() -> None:
    document = good()
    document["cluster"]["queues"][1]["parent"] = "top"

    with pytest.raises(InvalidError, match=r"^cluster\.queues\[1\]\.parent: .* cycle: top > top"):
        load_snapshot(json.dumps(document))


def test_a_gpu_type_that_is_not_unicode_is_rejected() -> None:
    with pytest.raises(InvalidError, match="is not Unicode text"):
        load_snapshot(changed(f"{TASK}.request.gpu.type", "\ud800"))


@pytest.mark.parametrize("key", ["nodes", "queues", "jobs"])
def test_two_entries_with_the_same_name_are_rejected(key: str) -> None:
    document = good()
    document["cluster"][key].append(copy.deepcopy(document["cluster"][key][0]))

    with pytest.raises(InvalidError, match=rf"^cluster\.{key}\[\d\]\.name: .* is there twice"):
        load_snapshot(json.dumps(document))


def test_two_tasks_with_the_same_uid_are_rejected() -> None:
    document = good()
    document["cluster"]["jobs"][1]["tasks"][0]["uid"] = "half-0"

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[1\]\.tasks\[0\]\.uid"):
        load_snapshot(json.dumps(document))


def test_a_running_task_without_a_node_is_rejected() -> None:
    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[2\]\.tasks\[0\]: .* on a node"):
        load_snapshot(changed(f"{TASK}.node", None))


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '{"schema": 1}', "\xff", '{"cases": 1}'])
def test_files_of_another_kind_are_rejected(text: str) -> None:
    with pytest.raises(InvalidError):
        load_any(read_document(text.encode("latin-1")))


def test_deeply_nested_files_are_rejected() -> None:
    with pytest.raises(InvalidError):
        load_any(read_document("[" * 100_000))
    for depth in (100, 300, 700):
        groups = '{"groups":[' * depth + "]}" * depth
        with pytest.raises(InvalidError):
            load_any(read_document(f'{{"cluster":{{"jobs":[{groups}]}}}}'))


def test_a_missing_field_is_named() -> None:
    document = good()
    del document["cluster"]["jobs"][0]["queue"]

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[0\]: queue is missing"):
        load_snapshot(json.dumps(document))


def test_a_file_with_several_cases_needs_a_case_id() -> None:
    with pytest.raises(InvalidError, match="has 2 cases"):
        load_any({"cases": [{"id": "x"}, {"id": "y"}]})
    with pytest.raises(InvalidError, match="0 cases"):
        load_any({"cases": [{"id": "x"}, {"id": "y"}]}, "z")


def test_a_cluster_that_was_built_in_code_can_be_checked() -> None:
    check_cluster(a_cluster(nodes={"a": 1}, jobs=[a_job("job", on="a")]))

    with pytest.raises(InvalidError, match=r"^cluster\.jobs\[0\]\.tasks\[0\]\.node: no node"):
        check_cluster(a_cluster(nodes={"a": 1}, jobs=[a_job("job", on="b")]))
