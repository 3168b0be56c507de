"""Clusters that keep specs from one fleet to the next equal those that are computed anew."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Health
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState, Queue
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import FleetClusters, Specs, fleet_cluster
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

NODES = [f"n{number}" for number in range(4)]
JOBS = [f"j{number}" for number in range(4)]
QUEUES = [{}, {"default": Queue(name="default", quota=8.0)}]

pools = st.builds(
    a_pool, st.just("training"), labels=st.sampled_from([{}, {"team": "a"}, {"team": "b"}])
)
nodes = st.builds(
    a_node,
    st.sampled_from(NODES),
    phase=st.sampled_from([Phase.BOOTING, Phase.READY, Phase.READY, Phase.DRAINING, Phase.GONE]),
    health=st.sampled_from([Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY]),
    replaces=st.sampled_from([None, *map(NodeId, NODES)]),
    labels=st.sampled_from([{}, {"rack": "r1"}]),
    gpus=st.sampled_from([None, 4, 8]),
)
facts = {
    "gpus": st.sampled_from([1, 8]),
    "gpu_type": st.sampled_from(["", "h100", "a100"]),
    "checkpointed_at": st.sampled_from([None, NOW]),
}
jobs = st.one_of(
    st.builds(
        a_job,
        st.sampled_from(JOBS),
        state=st.sampled_from([JobState.WAITING, JobState.FINISHED]),
        tasks=st.integers(1, 3),
        **facts,
    ),
    st.builds(
        a_job,
        st.sampled_from(JOBS),
        on=st.lists(st.sampled_from(NODES), min_size=1, max_size=2).map(tuple),
        **facts,
    ),
)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    written: list[Node] = draw(st.lists(nodes, max_size=2, unique_by=lambda node: node.id))
    placed: list[Job] = draw(st.lists(jobs, max_size=2, unique_by=lambda job: job.name))
    changed: list[Pool] = draw(st.lists(pools, max_size=1))
    names = {job.name for job in placed}
    gone = [JobName(name) for name in draw(st.lists(st.sampled_from(JOBS), max_size=1))]
    return Change(
        pools=changed,
        nodes=written,
        jobs=placed,
        forget_jobs=[name for name in gone if name not in names],
    )


@given(st.lists(st.tuples(changes(), st.sampled_from(QUEUES)), min_size=1, max_size=12))
def test_the_clusters_of_one_fleet_after_another_equal_those_computed_anew(
    steps: list[tuple[Change, dict[str, Queue]]],
) -> None:
    kept, fleet = FleetClusters(), apply(Fleet(), Change(pools=[a_pool()]))
    for number, (change, queues) in enumerate(steps):
        fleet = fleet if change.empty else apply(fleet, change)
        now = NOW + timedelta(minutes=number)
        assert kept.cluster(fleet, queues, now=now) == fleet_cluster(fleet, queues, now=now)


def test_only_specs_with_changed_arguments_are_computed_again() -> None:
    computed: list[tuple[str, int | None]] = []

    def compute(name: str, mark: int | None) -> str | None:
        computed.append((name, mark))
        return None if name == "nothing" else f"{name}={mark}"

    specs: Specs[str, str, int, str] = Specs(compute)
    a, b, nothing = ("a", "one"), ("b", "two"), ("c", "nothing")
    assert specs.of([a, b, nothing], {"a": 1}) == ("one=1", "two=None")
    assert specs.of([b, a, nothing], {"a": 2}) == ("two=None", "one=2")
    assert specs.of([("a", "three")], {"a": 2}) == ("three=2",)
    assert specs.of([b], {}) == ("two=None",)
    assert computed == [
        ("one", 1),
        ("two", None),
        ("nothing", None),
        ("one", 2),
        ("three", 2),
        ("two", None),
    ]


def test_a_forgotten_job_is_not_in_the_next_cluster() -> None:
    kept = FleetClusters()
    fleet = apply(Fleet(), Change(pools=[a_pool()], nodes=[a_node("n0")], jobs=[a_job("j")]))
    assert len(kept.cluster(fleet, {}, now=NOW).jobs) == 1
    fleet = apply(fleet, Change(forget_jobs=[JobName("j")], forget_nodes=[NodeId("n0")]))
    found = kept.cluster(fleet, {}, now=NOW)
    assert (found.jobs, found.nodes) == ((), ())


def test_specs_are_kept_while_their_pool_requests_other_nodes() -> None:
    kept, pool = FleetClusters(), a_pool()
    fleet = apply(Fleet(), Change(pools=[pool], nodes=[a_node("n0")], jobs=[a_job("j")]))
    before = kept.cluster(fleet, {}, now=NOW)
    counted = evolve(pool, next_index=pool.next_index + 1)
    after = kept.cluster(apply(fleet, Change(pools=[counted])), {}, now=NOW)
    assert after.nodes[0] is before.nodes[0]
    assert after.jobs[0] is before.jobs[0]
