"""Snapshots are complete: a copy gives the same decisions."""

import io
import json
import zipfile
from datetime import timedelta

from navarch.scheduler.config import HttpRequest, Parameters, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import open_session, run_cycle
from navarch.scheduler.model.cluster import (
    AffinityTerm,
    ClaimUse,
    Device,
    NodeHealth,
    QueueUsage,
    ResourceClaim,
    ResourceSlice,
    Taint,
    Toleration,
    Topology,
    TopologyConstraint,
)
from navarch.scheduler.plan import describe, render_plan, render_result
from navarch.scheduler.plugins import built_in_plugins
from navarch.scheduler.plugins.pages import job_order
from navarch.scheduler.snapshot.snapshot import Snapshot, dump_snapshot, load_snapshot
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_node, a_queue, ask


def everything() -> Snapshot:
    """Return a snapshot with a non-default value in every field."""
    term = AffinityTerm(topology_key="zone", labels={"app": "db"})
    task = {
        "labels": {"app": "db"},
        "node_selector": {"zone": "x"},
        "node_affinity_in": ("t",),
        "affinity": (term,),
        "anti_affinity": (AffinityTerm(topology_key="host", labels={"app": "web"}),),
        "preferred_affinity": (AffinityTerm(topology_key="zone", labels={"a": "b"}, weight=3),),
        "tolerations": (Toleration(key="spot", value="yes", effect="NoSchedule"),),
        "host_ports": (80,),
        "config_maps": ("settings",),
        "nominated_node": "a",
        "order_priority": "3",
        "created_at": NOW - timedelta(seconds=7),
        "claims": (ClaimUse(claim="c", pod_claim_name="p", from_template=True),),
    }
    cluster = a_cluster(
        nodes=[
            a_node(
                "a",
                4,
                labels={"zone": "x", "kai.scheduler/type": "t"},
                taints=(Taint(key="spot", value="yes"),),
                health=NodeHealth(suspect=True),
                mig={"nvidia.com/mig-1g.5gb": 2},
                mig_strategy="mixed",
                gpu_memory_mib=81_559,
            )
        ],
        queues=[
            a_queue("top", quota=3.5, limit=7, weight=2, age=5),
            a_queue(
                "queue",
                parent="top",
                priority=7,
                preempt_min_runtime=timedelta(minutes=3),
                reclaim_min_runtime=timedelta(0),
            ),
        ],
        jobs=[
            a_job(
                "job",
                request=ask(0.5, devices=2),
                task=task,
                topology=TopologyConstraint(topology="t", required_level="zone"),
                last_start=NOW - timedelta(seconds=5),
                stale_since=NOW - timedelta(seconds=1),
                namespace="team",
            ),
            a_job("mig", request=ask(mig={"nvidia.com/mig-1g.5gb": 1}), age=2.5),
            a_job("memory", request=ask(memory_mib=10), on="a", groups=["g"]),
        ],
        topologies=(Topology(name="t", levels=("zone",)),),
        device_classes=("gpu",),
        resource_slices=(
            ResourceSlice(
                name="s", node="a", device_class="gpu", driver="d", pool="a", devices=("0",)
            ),
        ),
        resource_claims=(
            ResourceClaim(
                name="c",
                namespace="team",
                labels={"x": "y"},
                device_class="gpu",
                allocation=(Device(driver="d", pool="a", name="0"),),
                reserved_for=("another-task",),
            ),
        ),
        config_maps=("settings",),
        usage={"queue": QueueUsage(gpu=0.25)},
        min_node_gpu_memory_mib=100,
    )
    config = SchedulerConfig(
        actions=("allocate", "preempt"),
        plugins=(PluginConfig(name="nodeplacement", arguments={"gpu": "spread"}),),
        parameters=Parameters(
            seed=7,
            staleness_grace=None,
            max_consolidation_victims=None,
            queue_depth_per_action={"allocate": 3},
        ),
    )
    return Snapshot(cluster=cluster, config=config)


def test_a_snapshot_survives_being_written_and_read() -> None:
    snapshot = everything()

    again = load_snapshot(dump_snapshot(snapshot))

    assert again.config == snapshot.config
    assert dump_snapshot(again) == dump_snapshot(snapshot)
    assert sorted(again.cluster.jobs, key=lambda j: j.name) == sorted(
        snapshot.cluster.jobs, key=lambda j: j.name
    )
    assert again.cluster.nodes == snapshot.cluster.nodes
    assert again.cluster.resource_claims == snapshot.cluster.resource_claims


def test_a_snapshot_does_not_depend_on_the_order_of_its_lists() -> None:
    nodes, jobs = [a_node("b"), a_node("a")], [a_job("y"), a_job("x")]
    one = Snapshot(cluster=a_cluster(nodes=nodes, jobs=jobs), config=SchedulerConfig())
    two = Snapshot(cluster=a_cluster(nodes=nodes[::-1], jobs=jobs[::-1]), config=SchedulerConfig())

    assert dump_snapshot(one) == dump_snapshot(two)


def test_the_snapshot_page_serves_the_snapshot_of_the_session() -> None:
    cluster = a_cluster(nodes={"a": 2}, jobs=[a_job("job")])
    config = SchedulerConfig(actions=("preempt",), plugins=(PluginConfig(name="snapshot"),))
    session = open_session(cluster, config)

    page = session.http_handlers["/get-snapshot"](HttpRequest(path="/get-snapshot"))
    with zipfile.ZipFile(io.BytesIO(page.body)) as archive:
        (name,) = archive.namelist()
        loaded = load_snapshot(archive.read(name))

    assert name == "snapshot.json"
    assert loaded == Snapshot(cluster=cluster, config=config)


def test_the_job_order_page_shows_the_global_order_and_each_queue() -> None:
    jobs = [a_job("x", queue="p", priority=60), a_job("y", queue="p"), a_job("z", queue="q")]
    queues = [a_queue("p"), a_queue("q")]
    session = open_session(a_cluster(nodes={"a": 2}, queues=queues, jobs=jobs))
    session.add_plugin(built_in_plugins().build("reflectjoborder", {}))

    page = session.http_handlers["/get-job-order"](HttpRequest(path="/get-job-order"))

    shown = json.loads(page.body)
    assert shown == job_order(session)
    assert [row["id"] for row in shown["queue_order"]["p"]] == ["x", "y"]
    assert {row["id"] for row in shown["global_order"]} == {"x", "y", "z"}


def test_equal_decisions_have_equal_digests() -> None:
    cluster = a_cluster(nodes={"a": 2}, jobs=[a_job("job")])
    other = a_cluster(nodes={"a": 2}, jobs=[a_job("job"), a_job("more")])

    first, second = render_result(run_cycle(cluster)), render_result(run_cycle(cluster))

    assert first == second
    assert first["digest"] != render_result(run_cycle(other))["digest"]


def test_a_plan_is_rendered_as_text() -> None:
    jobs = [
        a_job("low", gpus=2, on="a"),
        a_job("high", gpus=2, priority=75),
        a_job("huge", gpus=9, priority=10),
    ]

    text = render_plan(run_cycle(a_cluster(nodes={"a": 2}, jobs=jobs)))

    assert text.splitlines() == [
        "stop low-0 on a: job 'high' (priority 75) preempted job 'low' (priority 50) "
        "in queue 'queue'",
        "keep a place on a for high-0",
        "huge stays pending: huge-0: no node has that much gpu: requested 9, at most 2",
    ]
    assert describe(run_cycle(a_cluster(nodes={"a": 1}, jobs=[a_job("j")])).decisions[0]) == (
        "start j-0 on a"
    )
