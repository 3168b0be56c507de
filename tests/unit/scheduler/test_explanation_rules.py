"""Why a job waits: how far it got, which rule refused which nodes, what would help."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from navarch.cli.render.explanation import explanation_to_dict, format_explanation
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


def test_the_best_attempt_tells_how_far_a_gang_got() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of, attempt.on) == (1, 3, ("a",))
    assert attempt.asks_for == "8 GPUs"


def test_every_node_is_refused_by_some_rule() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    refused = {(r.rule, r.reason): r.names for r in attempt.refusals}
    assert refused == {
        ("resources", "not enough is free"): ("a", "e"),
        ("resources", "too small, even if nobody else were there"): ("b",),
        ("predicates", "the node is cordoned"): ("d",),
        ("predicates", "the task does not tolerate team=x:NoSchedule"): ("c",),
    }
    assert [(each.node, each.lacks) for each in attempt.closest] == [("e", "2 GPUs")]


def test_what_a_node_lacks_is_told_in_figures_as_well() -> None:
    attempt = why_job(crowded(), None, "train").attempt

    assert attempt is not None
    (nearest,) = attempt.closest
    assert (nearest.gpus, nearest.cpu_cores, nearest.memory_gb) == (2, 0, 0)


def test_every_node_that_a_rule_refuses_is_named_as_data_and_some_in_words() -> None:
    names = [f"n{number:02}" for number in range(20)]
    cordoned = [a_node(name, health=NodeHealth(cordoned=True)) for name in names]
    explanation = why_job(a_cluster(nodes=cordoned, jobs=[a_job("job")]), None, "job")

    assert explanation.attempt is not None
    (refusal,) = explanation.attempt.refusals
    assert (refusal.nodes, list(refusal.names)) == (20, names)
    assert "n04, ..." in format_explanation(explanation)


def test_of_a_full_node_that_would_not_do_empty_either_the_lasting_reason_is_told() -> None:
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
        "lift what predicates says of a (the node is not labelled gpu=b200), and free 8 GPUs on a"
    )
    assert [step.kind for step in remedy.steps] == ["lift_rule", "free"]
    assert remedy.steps[1].lacks is not None
    assert (remedy.steps[1].lacks.node, remedy.steps[1].lacks.gpus) == ("a", 8)


def test_a_task_that_fits_nowhere_does_not_hide_how_many_others_would() -> None:
    wants = {"node_selector": {"disk": "large"}}
    tasks = [*a_job("gang", tasks=1, task=wants).tasks, *a_job("others", tasks=3).tasks]
    gang = replace(a_job("gang", tasks=4), tasks=tuple(tasks))

    attempt = why_job(a_cluster(nodes={"a": 8}, jobs=[gang]), None, "gang").attempt

    assert attempt is not None
    assert (attempt.placed, attempt.of, attempt.failed_task) == (3, 4, "gang-0")
    assert attempt.refusals[0].would_admit == 8


def test_a_gang_kept_back_by_its_queue_is_told_what_it_would_lack_besides() -> None:
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
        "raise the limit of queue tiny by 22 GPUs, and one more place for a task that asks for "
        "8 GPUs"
    )
    assert [step.kind for step in remedy.steps] == ["raise_bound", "add_places"]


def test_what_a_queue_refuses_to_one_job_it_still_refuses_to_the_next() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        jobs=[a_job(name, gpus=4, queue="tiny") for name in ("one", "two")],
        queues=[a_queue("tiny", limit=2)],
    )

    first, second = why_pending(cluster, None)

    assert first.bound is not None
    assert second.bound == first.bound


def test_work_that_may_not_be_interrupted_is_told_that_it_could_be() -> None:
    cluster = a_cluster(
        nodes={"a": 8},
        jobs=[a_job("steady", gpus=4, queue="team", preemptible=False)],
        queues=[a_queue("team", quota=2)],
    )

    remedies = why_job(cluster, None, "steady").remedies

    assert any(
        "may be interrupted may use more than the quota" in remedy.says for remedy in remedies
    )


def test_those_who_go_first_are_named() -> None:
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
    assert "1 job of its queue goes first: high (priority 90)" in low.reasons
    assert (high.ahead, high.in_front) == (0, ())


def test_those_whose_leaving_would_not_be_enough_are_named() -> None:
    cluster = a_cluster(
        nodes={"a": 8, "b": 8},
        jobs=[
            a_job("busy", gpus=8, on="a", priority=125),
            a_job("low", gpus=8, on="b", priority=40),
            a_job("gang", tasks=2, gpus=8, priority=90),
        ],
    )

    reasons = why_job(cluster, None, "gang").reasons

    assert "stopping work of lower priority would not do: low (priority 40)" in reasons


def test_those_who_were_given_the_room_in_this_very_cycle_are_named() -> None:
    jobs = [a_job("high", gpus=8, priority=90), a_job("low", gpus=8, priority=40)]

    reasons = why_job(a_cluster(nodes={"a": 8}, jobs=jobs), None, "low").reasons

    assert "room was given in this cycle to: high (priority 90)" in reasons


def test_a_gang_that_must_stay_together_is_told_which_domain_comes_closest() -> None:
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
    assert explanation.summary == "job gang waits: within s, 3 of 4 tasks would find a place"
    assert [remedy.says for remedy in explanation.remedies] == [
        "one more place within s for a task that asks for 1 GPU",
        "leave to spread wider than rack",
    ]
    assert explanation.remedies[1].steps[0].level == "rack"


def test_of_a_group_within_a_gang_only_its_own_tasks_are_counted() -> None:
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


def test_an_action_that_gave_up_is_told_to_those_behind() -> None:
    config = SchedulerConfig(parameters=Parameters(seconds_per_action=15))
    jobs = [a_job(f"job{i}", age=9 - i) for i in range(3)]
    ticks = iter(range(0, 100_000, 10))

    explanation = why_job(
        a_cluster(nodes={"a": 8}, jobs=jobs), config, "job2", clock=lambda: float(next(ticks))
    )

    assert "allocate gave up after 15 seconds, at job job1" in explanation.reasons


def test_a_job_of_one_task_is_not_spoken_of_as_a_gang() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("busy", gpus=8, on="a"), a_job("job")])

    assert why_job(cluster, None, "job").summary == "job job waits: its task finds no place"


def test_what_would_help_is_enough_to_place_the_gang() -> None:
    remedies = why_job(crowded(), None, "train").remedies

    assert remedies[0].says == "2 more places for a task that asks for 8 GPUs"
    assert any(remedy.says.startswith("all of these: lift") for remedy in remedies)


def test_a_rule_that_alone_stands_in_the_way_is_named_alone() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", health=NodeHealth(cordoned=True))], jobs=[a_job("job", gpus=8)]
    )

    assert "lift what predicates says of a (the node is cordoned)" in [
        remedy.says for remedy in why_job(cluster, None, "job").remedies
    ]


def test_a_queue_at_its_limit_is_told_by_how_much() -> None:
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


def test_a_step_of_a_remedy_is_printed_with_what_belongs_to_its_kind_only() -> None:
    (remedy,) = explanation_to_dict(why_job(crowded(), None, "capped"))["remedies"]

    assert remedy["steps"] == [
        {"kind": "raise_bound", "queue": "tiny", "bound": "limit", "resource": "gpu", "amount": 2}
    ]


def test_a_job_that_its_queue_could_hold_alone_may_also_wait() -> None:
    jobs = [a_job(name, gpus=2, queue="tiny", age=age) for name, age in (("one", 9), ("two", 1))]
    cluster = a_cluster(nodes={"a": 8}, jobs=jobs, queues=[a_queue("tiny", limit=2)])

    assert [remedy.says for remedy in why_job(cluster, None, "two").remedies] == [
        "raise the limit of queue tiny by 2 GPUs",
        "wait until jobs in queue tiny give back 2 GPUs",
    ]


def test_a_job_that_runs_says_where() -> None:
    cluster = a_cluster(nodes={"a": 8}, jobs=[a_job("job", tasks=2, on="a")])

    explanation = why_job(cluster, None, "job")

    assert explanation.state == "running"
    assert explanation.summary == "job job has all its tasks placed: on a"


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
    text = format_explanation(why_job(crowded(), None, "train"))

    assert max(map(len, text.splitlines())) < 80


def test_in_a_fleet_without_nodes_the_rule_is_told_and_no_node_is_counted() -> None:
    empty = a_cluster(nodes=[], jobs=[a_job("train", tasks=2, gpus=8)], queues=[a_queue("queue")])

    text = format_explanation(why_job(empty, None, "train"))

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
