"""Placement of jobs: which get GPUs, which are evicted, and the reasons."""

from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.event import StepKind
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Health
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.instance import LABEL, Topology
from navarch.core.job import Job, JobState, Queue
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX, TASKS_PER_JOB_MAX
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import NETWORK, fleet_cluster
from navarch.fleet.jobs.demand import growth, work_of
from navarch.fleet.jobs.job_index import JobIndex
from navarch.fleet.jobs.placement import decided_jobs, plan_jobs
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.scheduler.config import (
    DEFAULT_PLUGINS,
    OWN_PLUGINS,
    Parameters,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.cycle import run_cycle
from navarch.scheduler.framework.decision import Bind
from navarch.scheduler.model.cluster import TopologyConstraint
from navarch.testing.worlds import H100, NOW, a_job, a_node, a_pool

SETTINGS = Scheduling()


def a_fleet(*things: Node | Job, pools: tuple[str, ...] = ("training",)) -> Fleet:
    return apply(
        Fleet(),
        Change(
            pools=[a_pool(name) for name in pools],
            nodes=[each for each in things if isinstance(each, Node)],
            jobs=[each for each in things if isinstance(each, Job)],
        ),
    )


def after(fleet: Fleet, scheduling: Scheduling = SETTINGS, rounds: int = 1) -> Fleet:
    for _ in range(rounds):
        plan = plan_jobs(fleet, scheduling, now=NOW)
        fleet = fleet if plan.change.empty else apply(fleet, plan.change)
    return fleet


def where(fleet: Fleet, job: str) -> tuple[str, ...]:
    return fleet.jobs[JobName(job)].nodes


def test_a_job_is_placed_on_free_nodes_and_lists_them() -> None:
    fleet = a_fleet(a_node("n0"), a_job("first"))

    job = after(fleet).jobs[JobName("first")]

    assert (job.state, job.nodes, job.since) == (JobState.PLACED, ("n0",), NOW)
    assert job.reason == "on n0"


def test_the_journal_records_every_change_of_a_job() -> None:
    plan = plan_jobs(a_fleet(a_node("n0"), a_job("first")), SETTINGS, now=NOW)

    (event,) = plan.change.events
    assert (event.about, event.kind, event.reason) == ("job/first", "job.placed", "on n0")


def test_a_gang_gets_all_of_its_nodes_or_none() -> None:
    gang = a_job("gang", tasks=3)

    assert where(after(a_fleet(a_node("n0"), a_node("n1"), gang)), "gang") == ()
    whole = after(a_fleet(a_node("n0"), a_node("n1"), a_node("n2"), gang))
    assert sorted(where(whole, "gang")) == ["n0", "n1", "n2"]


def test_a_stored_job_above_the_limit_is_skipped_and_others_are_placed() -> None:
    huge = a_job("huge", tasks=TASKS_PER_JOB_MAX + 1)
    fleet = a_fleet(a_node("n0"), huge, a_job("next"))

    assert [job.name for job in fleet_cluster(fleet, {}, now=NOW).jobs] == ["next"]
    assert where(after(fleet), "next") == ("n0",)
    assert after(fleet).jobs[huge.name] == huge


def test_a_running_job_above_the_limit_keeps_its_gpus() -> None:
    names = [f"n{number}" for number in range(TASKS_PER_JOB_MAX + 1)]
    holder = a_job("holder", on=tuple(names))
    fleet = a_fleet(*[a_node(name) for name in names], holder, a_job("next"))

    assert [job.name for job in fleet_cluster(fleet, {}, now=NOW).jobs] == ["holder", "next"]


def test_gpus_of_a_job_are_exclusive_until_it_ends() -> None:
    holder = a_job("holder", on=("n0",), gpus=6)
    fleet = a_fleet(a_node("n0"), holder, a_job("next", gpus=4))

    assert where(after(fleet), "next") == ()
    ended = evolve(holder, state=JobState.FINISHED, nodes=())
    assert where(after(apply(fleet, Change(jobs=[ended]))), "next") == ("n0",)


def test_the_scheduler_considers_racks_and_switches() -> None:
    """Of three free nodes, the two in one rack are chosen."""
    nodes = [
        a_node(f"n{number}", topology=Topology(block="b", rack=rack, switch=f"{rack}-s"))
        for number, rack in enumerate("xyzy")
    ]
    busy = a_job("busy", on=("n2",))
    cluster = fleet_cluster(a_fleet(*nodes, busy, a_job("gang", tasks=2)), {}, now=NOW)
    nearness = TopologyConstraint(topology=NETWORK.name, required_level=f"{LABEL}rack")
    jobs = [
        replace(job, root=replace(job.root, topology=nearness)) if job.name == "gang" else job
        for job in cluster.jobs
    ]

    decisions = run_cycle(replace(cluster, jobs=tuple(jobs)), SETTINGS.config).decisions

    assert sorted(each.node for each in decisions if isinstance(each, Bind)) == ["n1", "n3"]


def test_several_jobs_share_a_node_with_enough_gpus() -> None:
    jobs = [a_job(f"j{number}", gpus=3) for number in range(3)]

    fleet = after(a_fleet(a_node("n0"), *jobs))

    assert len(JobIndex(fleet).on_node(NodeId("n0"))) == 2
    assert [job.state for job in fleet.jobs.values()].count(JobState.WAITING) == 1


@pytest.mark.parametrize(
    "facts",
    [
        {"cordoned": "by hand"},
        {"health": Health.UNHEALTHY},
        {"waiting": True},
        {"retiring": Retirement(reason="old")},
        {"phase": Phase.BOOTING},
    ],
)
def test_no_job_is_placed_on_a_node_out_of_service(facts: dict[str, object]) -> None:
    assert where(after(a_fleet(a_node("n0", **facts), a_job("j"))), "j") == ()  # type: ignore[arg-type]


def test_a_job_with_a_pool_is_placed_in_no_other() -> None:
    nodes = [a_node("a0", "alpha"), a_node("b0", "beta")]
    job = a_job("picky", pool=PoolName("beta"))

    assert where(after(a_fleet(*nodes, job, pools=("alpha", "beta"))), "picky") == ("b0",)


def test_a_job_with_a_gpu_type_gets_no_other() -> None:
    a100 = a_node("a0")
    assert a100.launch is not None
    offering = evolve(H100, gpu_type="a100")
    a100 = evolve(a100, launch=evolve(a100.launch, offering=offering))

    assert where(after(a_fleet(a100, a_job("j", gpu_type="h100"))), "j") == ()
    assert where(after(a_fleet(a100, a_node("h0"), a_job("j", gpu_type="h100"))), "j") == ("h0",)


@pytest.mark.parametrize("called", ["H100", "NVIDIA H100 80GB HBM3", "h100-sxm"])
def test_gpu_types_match_in_every_common_spelling(called: str) -> None:
    node = a_node("n0")
    assert node.launch is not None
    offering = evolve(H100, gpu_type=called)
    node = evolve(node, launch=evolve(node.launch, offering=offering))
    pool = a_pool("training", offerings=(offering,))
    job = a_job("j", gpu_type="h100")
    fleet = apply(Fleet(), Change(pools=[pool], nodes=[node], jobs=[job]))

    assert where(after(fleet), "j") == ("n0",)
    assert where(after(a_fleet(node, evolve(job, gpu_type="h100-4x"))), "j") == ()
    assert [work.gpus for work in work_of(fleet, pool.name)] == [job.gpus]
    assert growth(fleet, job)[0].says.startswith("more nodes in pool training")


def test_a_quota_per_gpu_type_applies_in_every_spelling() -> None:
    quota = PluginConfig(name="gputypequota", arguments={"limits": "default/h100=8"})
    bounded = Scheduling(config=SchedulerConfig(plugins=(quota, *OWN_PLUGINS)))
    nodes = [a_node("n0"), a_node("n1")]
    offering = evolve(H100, gpu_type="NVIDIA H100 80GB HBM3")
    nodes = [evolve(n, launch=evolve(n.launch, offering=offering)) for n in nodes if n.launch]

    fleet = after(a_fleet(*nodes, a_job("first", gpus=8), a_job("second", gpus=8)), bounded)

    assert sorted(map(len, (where(fleet, "first"), where(fleet, "second")))) == [0, 1]


def test_a_job_that_loses_its_node_is_requeued_and_placed_elsewhere() -> None:
    gone = evolve(a_node("n0"), phase=Phase.GONE)
    fleet = a_fleet(gone, a_node("n1"), a_job("unlucky", on=("n0",)))

    waiting = after(fleet).jobs[JobName("unlucky")]

    assert (waiting.state, waiting.nodes) == (JobState.WAITING, ())
    assert (waiting.reason, waiting.interruptions) == ("node n0 is gone", 1)
    assert where(after(fleet, rounds=2), "unlucky") == ("n1",)


@pytest.mark.parametrize(("preemptible", "stays"), [(False, True), (True, False)])
def test_a_drain_evicts_preemptible_jobs_and_waits_for_others(
    preemptible: bool, stays: bool
) -> None:
    node = evolve(a_node("n0"), phase=Phase.DRAINING, retiring=Retirement(reason="maintenance"))
    fleet = after(a_fleet(node, a_job("j", on=("n0",), preemptible=preemptible)))

    assert (fleet.jobs[JobName("j")].state is JobState.PLACED) is stays
    if not stays:
        assert "maintenance" in fleet.jobs[JobName("j")].reason


def test_a_job_of_higher_priority_evicts_a_preemptible_one() -> None:
    fleet = a_fleet(
        a_node("n0"),
        a_job("cheap", on=("n0",), preemptible=True),
        a_job("urgent", priority=90),
    )

    stopped = after(fleet).jobs[JobName("cheap")]
    settled = after(fleet, rounds=2)

    assert (stopped.state, stopped.reason) == (
        JobState.WAITING,
        "makes room for job urgent (preempt)",
    )
    assert where(settled, "urgent") == ("n0",)
    assert where(settled, "cheap") == ()


def test_only_preemptible_jobs_are_evicted() -> None:
    fleet = a_fleet(a_node("n0"), a_job("firm", on=("n0",)), a_job("urgent", priority=90))

    assert where(after(fleet, rounds=3), "firm") == ("n0",)


def test_the_preemptible_job_with_the_latest_checkpoint_is_evicted() -> None:
    def stopped(fresh: str) -> str:
        jobs = [
            a_job(
                name,
                on=(node,),
                preemptible=True,
                checkpointed_at=NOW - timedelta(minutes=1 if name == fresh else 50),
            )
            for name, node in (("a", "n0"), ("b", "n1"))
        ]
        fleet = after(a_fleet(a_node("n0"), a_node("n1"), *jobs, a_job("urgent", priority=90)))
        (waiting,) = (job.name for job in fleet.jobs.values() if job.interruptions)
        return waiting

    assert (stopped("a"), stopped("b")) == ("a", "b")


QUEUES = {
    "research": Queue(name="research", quota=8),
    "production": Queue(name="production", quota=8),
}


def test_a_queue_reclaims_its_quota() -> None:
    fleet = a_fleet(
        a_node("n0"),
        a_node("n1"),
        a_job("r0", on=("n0",), queue="research", preemptible=True),
        a_job("r1", on=("n1",), queue="research", preemptible=True),
        a_job("p0", queue="production"),
    )

    settled = after(fleet, Scheduling(queues=QUEUES), rounds=2)

    assert settled.jobs[JobName("p0")].state is JobState.PLACED
    assert sum(job.state is JobState.PLACED for job in settled.jobs.values()) == 2


def test_the_plan_contains_abandoned_searches() -> None:
    fleet = a_fleet(
        a_node("n0"),
        a_job("cheap", on=("n0",), preemptible=True),
        a_job("urgent", priority=90),
    )
    bounded = SchedulerConfig(
        plugins=SETTINGS.config.plugins, parameters=Parameters(simulations_per_action=0)
    )

    plan = plan_jobs(fleet, Scheduling(config=bounded), now=NOW)

    assert ("preempt", "urgent") in {(each.action, each.job) for each in plan.gave_up}
    assert plan.change.empty


def picky_and_easy() -> Fleet:
    """A fleet where a job occupies one GPU of `a0`, and more jobs need a node like it."""
    labelled = [
        evolve(a_node(name, pool), gpus=8) for name, pool in (("a0", "a"), ("b0", "b"), ("c0", "b"))
    ]
    picky = a_job("picky", on=("a0",) * 3, gpus=1, pool=PoolName("a"))
    return a_fleet(*labelled, picky, a_job("easy", gpus=1), pools=("a", "b"))


def test_flexible_jobs_avoid_nodes_that_other_jobs_need() -> None:
    assert where(after(picky_and_easy()), "easy") == ("b0",)


def test_configured_plugins_replace_the_default_ones() -> None:
    listed = Scheduling(config=SchedulerConfig(plugins=DEFAULT_PLUGINS))

    assert where(after(picky_and_easy(), listed), "easy") == ("a0",)


def test_waiting_and_running_jobs_count_as_demand_of_their_pools() -> None:
    fleet = a_fleet(
        a_node("b0", "beta"),
        a_job("runs", on=("b0",)),
        a_job("waits", tasks=2),
        a_job("there", pool=PoolName("beta")),
        a_job("over", state=JobState.CANCELLED),
        pools=("alpha", "beta"),
    )

    alpha, beta = (work_of(fleet, PoolName(name)) for name in ("alpha", "beta"))

    assert [(work.parts, work.waiting) for work in alpha] == [(2, True)]
    assert [(work.parts, work.waiting) for work in beta] == [(1, False), (1, True)]


def test_no_pool_grows_for_a_stored_job_above_the_limit() -> None:
    fleet = a_fleet(a_job("huge", tasks=TASKS_PER_JOB_MAX + 1), a_job("next"))

    assert [work.parts for work in work_of(fleet, PoolName("training"))] == [1]


def test_growth_suggests_no_size_above_the_limit() -> None:
    job = a_job("j")
    full = a_pool(size=NODES_PER_POOL_MAX, nodes_max=NODES_PER_POOL_MAX)

    (only,) = growth(apply(Fleet(), Change(pools=[full], jobs=[job])), job)

    assert only.says == (
        "one more pool: pool training has 100000 of at most 100000 nodes and would need 100001, "
        "above the limit of 100000 nodes per pool"
    )
    assert [step.kind for step in only.steps] == [StepKind.ADD_POOL]


def test_growth_names_the_pools_that_could_help_and_how_far_they_may_grow() -> None:
    def rendered(job: Job, pool: Offering = H100, **settings: object) -> str:
        fleet = apply(Fleet(), Change(pools=[a_pool(offerings=(pool,), **settings)], jobs=[job]))  # type: ignore[arg-type]
        (only,) = growth(fleet, job)
        return only.says

    assert "navarch pool scale training 3" in rendered(a_job("j"))
    assert rendered(a_job("j"), nodes_max=2).startswith("a higher max_nodes for pool training")
    assert "16 GPUs" in rendered(a_job("j", gpus=16))


def test_growth_requests_the_nodes_that_unplaced_tasks_need() -> None:
    def rendered(missing: int, job: Job, **settings: object) -> str:
        fleet = apply(Fleet(), Change(pools=[a_pool(nodes_max=9, **settings)], jobs=[job]))  # type: ignore[arg-type]
        (only,) = growth(fleet, job, missing=missing)
        return only.says

    gang = a_job("gang", tasks=6, gpus=4)
    assert "navarch pool scale training 5" in rendered(6, gang)  # two tasks per node
    assert "navarch pool scale training 3" in rendered(2, gang)
    assert "navarch pool scale training 8" in rendered(6, gang, gang=4)
    assert rendered(20, gang) == (
        "a higher max_nodes for pool training: it has 2 of at most 9 nodes and would need 12"
    )


def test_a_lost_node_of_a_job_is_recorded_before_the_job_gets_another() -> None:
    fleet = a_fleet(a_node("n1"), a_job("unlucky", on=("n0",)), a_job("other"))

    plan = plan_jobs(fleet, SETTINGS, now=NOW)

    assert [job.name for job in plan.change.jobs] == ["unlucky"]
    assert not JobIndex(after(fleet)).on_node(NodeId("n0"))


def test_a_job_without_a_place_for_each_of_its_tasks_gets_none() -> None:
    job = a_job("gang", tasks=2)
    fleet = a_fleet(a_node("n0"), a_node("n1"), job)
    binds = [
        Bind(task=task, job=job.name, node=node, action="allocate")
        for task, node in zip(job.task_names, ("n0", "n1"), strict=True)
    ]
    assert decided_jobs(fleet, binds[:1], NOW) == []
    (placed,) = decided_jobs(fleet, binds, NOW)
    assert placed.nodes == ("n0", "n1")
