"""Explanations of pending jobs: how many tasks fit, which rules reject nodes, what would help."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from navarch.cli.render.why import explanation_to_dict, format_explanation
from navarch.cli.sched import sched
from navarch.core.errors import NotFoundError
from navarch.scheduler import SchedulerConfig, Snapshot, dump_snapshot, open_session
from navarch.scheduler.config import Parameters
from navarch.scheduler.explain import explain_job, why_job, why_pending
from navarch.scheduler.model.cluster import (
    Cluster,
    NodeHealth,
    PodSetSpec,
    SubGroupSpec,
    Taint,
    Topology,
    TopologyConstraint,
)
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


def test_the_attempt_counts_the_tasks_of_a_gang_that_fit() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of, attempt.on) == (1, 3, ("a",))
    assert attempt.asks_for == "8 GPUs"


def test_every_rejected_node_is_listed_under_its_rule() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    refused = {(r.rule, r.reason): r.names for r in attempt.refusals}
    assert refused == {
        ("resources", "not enough is free"): ("a", "e"),
        ("resources", "too small even when empty"): ("b",),
        ("predicates", "the node is cordoned"): ("d",),
        ("predicates", "the task does not tolerate team=x:NoSchedule"): ("c",),
    }
    assert [(each.node, each.lacks) for each in attempt.closest] == [("e", "2 GPUs")]


def test_the_shortfall_of_a_node_is_also_given_as_numbers() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    (nearest,) = attempt.closest
    assert (nearest.gpus, nearest.cpu_cores, nearest.memory_gb) == (2, 0, 0)


def test_the_data_lists_every_rejected_node_and_the_text_a_few() -> None:
    names = [f"n{number:02}" for number in range(20)]
    cordoned = [a_node(name, health=NodeHealth(cordoned=True)) for name in names]
    explanation = why_job(a_cluster(nodes=cordoned, jobs=[a_job("job")]), None, "job")

    assert explanation.attempt is not None
    (refusal,) = explanation.attempt.refusals
    assert (refusal.nodes, list(refusal.names)) == (20, names)
    assert "n04, ..." in format_explanation(explanation)


def test_a_permanent_reason_is_reported_before_a_lack_of_room() -> None:
    wants = {"node_selector": {"gpu": "b200"}}
    cluster = a_cluster(
        nodes=[a_node("a", labels={"gpu": "h100"})],
        jobs=[a_job("busy", gpus=8, on="a", priority=125), a_job("job", gpus=8, task=wants)],
    )

    explanation = why_job(cluster, None, "job")

    assert explanation.attempt is not None
    (refusal,) = explanation.attempt.refusals
    assert (refusal.rule, refusal.reason) == ("predicates", "the node is not labelled gpu=b200")
    assert explanation.attempt.asks_for == "8 GPUs on a node labelled gpu=b200"
    (_, remedy) = explanation.remedies
    assert remedy.says == (
        "lift the rule of predicates for a (the node is not labelled gpu=b200), "
        "and free 8 GPUs on a"
    )
    assert [step.kind for step in remedy.steps] == ["lift_rule", "free"]
    assert remedy.steps[1].lacks is not None
    assert (remedy.steps[1].lacks.node, remedy.steps[1].lacks.gpus) == ("a", 8)


def test_a_task_that_fits_nowhere_does_not_hide_the_tasks_that_fit() -> None:
    wants = {"node_selector": {"disk": "large"}}
    tasks = [*a_job("gang", tasks=1, task=wants).tasks, *a_job("others", tasks=3).tasks]
    gang = replace(a_job("gang", tasks=4), tasks=tuple(tasks))

    attempt = why_job(a_cluster(nodes={"a": 8}, jobs=[gang]), None, "gang").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of, attempt.failed_task) == (3, 4, "gang-0")
    assert attempt.refusals[0].would_admit == 8


def test_a_gang_over_its_queue_limit_also_gets_remedies_for_missing_room() -> None:
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        jobs=[a_job("gang", tasks=3, gpus=8, queue="tiny")],
        queues=[a_queue("tiny", limit=2)],
    )

    explanation = why_job(cluster, None, "gang")

    assert explanation.bound is not None
    assert (explanation.bound.kind, explanation.bound.queue) == ("limit", "tiny")
    assert (explanation.bound.bound, explanation.bound.used, explanation.bound.asked) == (2, 0, 24)
    assert explanation.attempt is not None
    assert (explanation.attempt.placed, explanation.attempt.of) == (2, 3)
    (remedy,) = explanation.remedies
    assert remedy.says == (
        "raise the limit of queue tiny by 22 GPUs, and one more place for a task that needs 8 GPUs"
    )
    assert [step.kind for step in remedy.steps] == ["raise_bound", "add_places"]


def test_explaining_one_job_leaves_the_queue_limit_in_force_for_the_next() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        jobs=[a_job(name, gpus=4, queue="tiny") for name in ("one", "two")],
        queues=[a_queue("tiny", limit=2)],
    )

    first, second = why_pending(cluster, None)

    assert first.bound is not None
    assert second.bound == first.bound


def test_a_non_preemptible_job_over_quota_may_be_made_preemptible() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        jobs=[a_job("steady", gpus=4, queue="team", preemptible=False)],
        queues=[a_queue("team", quota=2)],
    )

    remedies = why_job(cluster, None, "steady").remedies

    assert any("preemptible jobs may exceed the quota" in remedy.says for remedy in remedies)


def test_jobs_that_are_served_first_are_named() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        jobs=[
            a_job("busy", gpus=4, on="a", priority=125),
            a_job("high", gpus=8, priority=90),
            a_job("low", gpus=8, priority=40),
        ],
    )

    low, high = (why_job(cluster, None, name) for name in ("low", "high"))

    assert (low.ahead, low.in_front) == (1, ("high",))
    assert "1 job of its queue is served first: high (priority 90)" in low.reasons
    assert (high.ahead, high.in_front) == (0, ())


def test_possible_victims_that_free_too_little_are_named() -> None:
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        jobs=[
            a_job("busy", gpus=8, on="a", priority=125),
            a_job("low", gpus=8, on="b", priority=40),
            a_job("gang", tasks=2, gpus=8, priority=90),
        ],
    )

    reasons = why_job(cluster, None, "gang").reasons

    assert "preempting jobs of lower priority frees too little: low (priority 40)" in reasons


def test_jobs_that_this_cycle_placed_are_named() -> None:
    jobs = [a_job("high", gpus=8, priority=90), a_job("low", gpus=8, priority=40)]

    reasons = why_job(a_cluster(nodes={"a": 8}, jobs=jobs), None, "low").reasons

    assert "this cycle placed: high (priority 90)" in reasons


def test_a_gang_within_one_domain_is_explained_with_the_roomiest_domain() -> None:
    nodes = [a_node(name, gpus, labels={"rack": name[0]}) for name, gpus in (("r1", 2), ("s1", 3))]
    together = TopologyConstraint(topology="tree", required_level="rack")
    cluster = a_cluster(
        nodes=nodes,
        jobs=[a_job("gang", tasks=4, topology=together)],
        topologies=(Topology(name="tree", levels=("rack",)),),
    )

    explanation = why_job(cluster, None, "gang")

    assert explanation.attempt is not None
    attempt = explanation.attempt
    assert (attempt.placed, attempt.of, attempt.within) == (3, 4, "s")
    assert [(each.name, each.room) for each in attempt.domains] == [("r", 2), ("s", 3)]
    assert explanation.summary == "job gang waits: 3 of 4 tasks fit within s"
    assert [remedy.says for remedy in explanation.remedies] == [
        "one more place within s for a task that needs 1 GPU",
        "allow the job to spread wider than rack",
    ]
    assert explanation.remedies[1].steps[0].level == "rack"


def test_a_group_within_a_gang_counts_only_its_own_tasks() -> None:
    together = TopologyConstraint(topology="tree", required_level="rack")
    pair = PodSetSpec(name="pair", min_available=2, topology=together)
    gang = a_job("gang", tasks=3)
    alone, *others = gang.tasks
    gang = replace(
        gang,
        root=SubGroupSpec(pod_sets=(PodSetSpec(name="alone", min_available=1), pair)),
        tasks=(
            replace(alone, sub_group="alone"),
            *(replace(each, sub_group="pair") for each in others),
        ),
    )
    cluster = a_cluster(
        nodes=[a_node(name, 1, labels={"rack": name}) for name in "rst"],
        jobs=[gang],
        topologies=(Topology(name="tree", levels=("rack",)),),
    )

    attempt = why_job(cluster, None, "gang").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of) == (1, 2)


def test_an_action_that_gave_up_is_a_reason_for_the_jobs_after_it() -> None:
    config = SchedulerConfig(parameters=Parameters(seconds_per_action=15))
    jobs = [a_job(f"job{i}", age=9 - i) for i in range(3)]
    ticks = iter(range(0, 100_000, 10))

    explanation = why_job(
        a_cluster(nodes={"a": 8}, jobs=jobs), config, "job2", clock=lambda: float(next(ticks))
    )

    assert "allocate gave up after 15 seconds, at job job1" in explanation.reasons


def test_the_summary_of_a_job_with_one_task_mentions_no_gang() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("busy", gpus=8, on="a"), a_job("job")])

    assert why_job(cluster, None, "job").summary == "job job waits: its task fits on no node"


def test_the_remedies_suffice_to_place_the_gang() -> None:
    remedies = why_job(crowded(), None, "train").remedies

    assert remedies[0].says == "2 more places for a task that needs 8 GPUs"
    assert any(remedy.says.startswith("all of these: lift") for remedy in remedies)


def test_a_single_obstructing_rule_has_a_remedy_of_its_own() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", health=NodeHealth(cordoned=True))], jobs=[a_job("job", gpus=8)]
    )

    assert "lift the rule of predicates for a (the node is cordoned)" in [
        remedy.says for remedy in why_job(cluster, None, "job").remedies
    ]


def test_a_queue_at_its_limit_has_a_remedy_with_the_amount() -> None:
    explanation = why_job(crowded(), None, "capped")

    (remedy,) = explanation.remedies
    assert remedy.says == "raise the limit of queue tiny by 2 GPUs"
    (step,) = remedy.steps
    assert (step.kind, step.queue, step.bound, step.resource, step.amount) == (
        "raise_bound",
        "tiny",
        "limit",
        "gpu",
        2,
    )


def test_a_step_is_printed_with_the_fields_of_its_kind_only() -> None:
    (remedy,) = explanation_to_dict(why_job(crowded(), None, "capped"))["remedies"]

    assert remedy["steps"] == [
        {"kind": "raise_bound", "queue": "tiny", "bound": "limit", "resource": "gpu", "amount": 2}
    ]


def test_a_job_within_its_queue_limit_may_also_wait_for_the_queue() -> None:
    jobs = [a_job(name, gpus=2, queue="tiny", age=age) for name, age in (("one", 9), ("two", 1))]
    cluster = a_cluster(nodes={"a": 8}, jobs=jobs, queues=[a_queue("tiny", limit=2)])

    assert [remedy.says for remedy in why_job(cluster, None, "two").remedies] == [
        "raise the limit of queue tiny by 2 GPUs",
        "wait until jobs in queue tiny release 2 GPUs",
    ]


def test_the_summary_of_a_running_job_names_its_nodes() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=2, on="a")])

    explanation = why_job(cluster, None, "job")

    assert explanation.state == "running"
    assert explanation.summary == "job job has all its tasks placed: on a"


def test_the_decision_that_started_a_job_is_listed() -> None:
    explanation = why_job(a_cluster(nodes={"a": 8}, jobs=[a_job("job")]), None, "job")

    assert explanation.state == "started"
    assert explanation.decisions == ("start job-0 on a",)


def test_explaining_changes_nothing() -> None:
    session = open_session(crowded())
    before = session.state()

    explain_job(session, "train")

    assert session.state() == before


def test_an_unknown_job_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="missing"):
        why_job(crowded(), None, "missing")


def test_an_explanation_fits_eighty_columns() -> None:
    text = format_explanation(why_job(crowded(), None, "train"))

    assert max(map(len, text.splitlines())) < 80


def test_without_nodes_the_rule_is_reported_and_no_node_is_counted() -> None:
    empty = a_cluster(nodes=[], jobs=[a_job("train", tasks=2, gpus=8)], queues=[a_queue("queue")])

    text = format_explanation(why_job(empty, None, "train"))

    assert "no node has that much gpu: requested 8, at most 0" in " ".join(text.split())
    assert "0 nodes" not in text
    assert "()" not in text


def test_the_command_explains_a_job_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(dump_snapshot(Snapshot(cluster=crowded(), config=SchedulerConfig())))

    result = CliRunner().invoke(sched, ["why", str(file), "train"])

    assert result.exit_code == 0
    assert result.output.startswith("job train waits: 1 of 3 tasks")
    assert CliRunner().invoke(sched, ["why", str(file), "missing"]).exit_code == 1


def test_without_a_name_the_command_explains_every_pending_job(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(dump_snapshot(Snapshot(cluster=crowded(), config=SchedulerConfig())))

    result = CliRunner().invoke(sched, ["why", str(file), "--json"])

    found = {each["job"]: each for each in json.loads(result.output)}
    assert found["train"] == json.loads(
        CliRunner().invoke(sched, ["why", str(file), "train", "--json"]).output
    )
    assert all(each["state"] == "waiting" for each in found.values())
    assert set(found) == {each.job for each in why_pending(crowded(), None)}
