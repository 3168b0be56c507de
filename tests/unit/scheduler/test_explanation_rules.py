"""Why a job waits: how far it got, which rule refused which nodes, what would help."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from navarch.cli.render.explanation import tell_explanation
from navarch.cli.sched import sched
from navarch.core.errors import NotFoundError
from navarch.scheduler import SchedulerConfig, Snapshot, dump_snapshot, open_session
from navarch.scheduler.cluster import Cluster, NodeHealth, Taint
from navarch.scheduler.explain import explain_job, why_job, why_pending
from navarch.scheduler.worlds import a_cluster, a_job, a_node, a_queue


def crowded() -> Cluster:
    return a_cluster(
        nodes=[
            a_node("a"),
            a_node("b", 4),
            a_node("c", taints=(Taint(key="team", value="x"),)),
            a_node("d", health=NodeHealth(cordoned=True)),
            a_node("e"),
        ],
        jobs=[
            a_job("train", tasks=3, gpus=8),
            a_job("small", gpus=2, on="e", priority=125),
            a_job("capped", queue="tiny", gpus=4),
        ],
        queues=[a_queue("queue"), a_queue("tiny", limit=2)],
    )


def test_the_best_attempt_tells_how_far_a_gang_got() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of, attempt.on) == (1, 3, ("a",))
    assert attempt.asks_for == "8 GPUs"


def test_every_node_is_refused_by_some_rule() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    refused = {(r.rule, r.reason): r.examples for r in attempt.refusals}
    assert refused == {
        ("resources", "not enough resources"): ("a", "b", "e"),
        ("predicates", "the node is cordoned"): ("d",),
        ("predicates", "the task does not tolerate team=x:NoSchedule"): ("c",),
    }
    assert [(each.node, each.lacks) for each in attempt.closest] == [("e", "2 GPUs")]


def test_what_would_help_is_enough_to_place_the_gang() -> None:
    remedies = why_job(crowded(), None, "train").remedies

    assert remedies[0] == "2 more places for a task that asks for 8 GPUs"
    assert any(text.startswith("all of these: lift") for text in remedies)


def test_a_rule_that_alone_stands_in_the_way_is_named_alone() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", health=NodeHealth(cordoned=True))], jobs=[a_job("job", gpus=8)]
    )

    assert "lift what predicates says of a (the node is cordoned)" in (
        why_job(cluster, None, "job").remedies
    )


def test_a_queue_at_its_limit_is_told_by_how_much() -> None:
    explanation = why_job(crowded(), None, "capped")

    assert explanation.attempt is None
    assert "raise the limit of queue tiny by 2 gpu" in explanation.remedies[0]


def test_a_job_that_was_started_says_where() -> None:
    explanation = why_job(a_cluster(nodes={"a": 8}, jobs=[a_job("job")]), None, "job")

    assert explanation.state == "started"
    assert explanation.decisions == ("start job-0 on a",)


def test_explaining_changes_nothing() -> None:
    session = open_session(crowded())
    before = session.state()

    explain_job(session, "train")

    assert session.state() == before


def test_an_unknown_job_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="nobody"):
        why_job(crowded(), None, "nobody")


def test_an_explanation_fits_eighty_columns() -> None:
    text = tell_explanation(why_job(crowded(), None, "train"))

    assert max(map(len, text.splitlines())) < 80


def test_in_a_fleet_without_nodes_the_rule_is_told_and_no_node_is_counted() -> None:
    empty = a_cluster(nodes=[], jobs=[a_job("train", tasks=2, gpus=8)], queues=[a_queue("queue")])

    text = tell_explanation(why_job(empty, None, "train"))

    assert "no node has that much gpu: asked for 8, at most 0" in " ".join(text.split())
    assert "0 nodes" not in text
    assert "()" not in text


def test_the_command_explains_a_job_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(dump_snapshot(Snapshot(cluster=crowded(), config=SchedulerConfig())))

    result = CliRunner().invoke(sched, ["why", str(file), "train"])

    assert result.exit_code == 0
    assert result.output.startswith("job train waits: 1 of 3 tasks")
    assert CliRunner().invoke(sched, ["why", str(file), "nobody"]).exit_code == 1


def test_every_job_that_stays_pending_is_explained_at_once(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(dump_snapshot(Snapshot(cluster=crowded(), config=SchedulerConfig())))

    said = CliRunner().invoke(sched, ["why", str(file), "--json"])

    found = {each["job"]: each for each in json.loads(said.output)}
    assert found["train"] == json.loads(
        CliRunner().invoke(sched, ["why", str(file), "train", "--json"]).output
    )
    assert all(each["state"] == "waiting" for each in found.values())
    assert set(found) == {each.job for each in why_pending(crowded(), None)}
