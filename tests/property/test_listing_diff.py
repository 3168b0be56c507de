"""The delta of a listing has the same findings as the whole listing."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.fleet.instance_state import Listing
from navarch.fleet.inventory_reconciliation import Findings, InventoryReconciliation, Seen
from navarch.fleet.listing_diff import ListingDiff
from navarch.testing.worlds import NOW, a_node, a_pool

SIM = ProviderName("sim")
CLUSTER = Cluster(id="cluster-1", secret=b"s" * 32)
NAMES = [f"training-{index}" for index in range(5)]
PHASES = [Phase.REQUESTED, Phase.BOOTING, Phase.READY, Phase.DRAINING, Phase.TERMINATING]

machines = st.dictionaries(
    st.tuples(st.sampled_from([*NAMES, "training-7", "foreign"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(list(InstanceStatus)), st.sampled_from(["", "10.0.0.1"])),
)
operations = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([None, *PHASES]))
repeated = st.lists(
    st.tuples(st.sampled_from(list(InstanceStatus)), st.sampled_from(["", "10.0.0.1"])), max_size=2
)
"""The second descriptions, at the end of the listing, of its first machines."""
rounds = st.lists(st.tuples(operations, machines, repeated), min_size=1, max_size=8)


def an_instance(name: str, twin: int, status: InstanceStatus, address: str = "") -> Instance:
    owner = Owner(node=NodeId(name), pool=PoolName("training"), token=Token(f"launch-{name}"))
    return Instance(
        id=InstanceId(f"i-{name}" + "-twin" * twin),
        provider=SIM,
        status=status,
        instance_type="h100-8x",
        private_address=address,
        labels={} if name == "foreign" else CLUSTER.labels(owner),
        launched_at=NOW - timedelta(hours=1),
    )


def a_version_of(name: str, phase: Phase) -> Node:
    node = a_node(name, phase=phase)
    retiring = Retirement(reason="XID 79") if phase is Phase.TERMINATING else None
    return evolve(node, retiring=retiring)


def missing_from(fleet: Fleet, listed: list[Instance]) -> list[NodeId]:
    """Return the nodes with a machine that should have been listed, from the whole fleet."""
    names = {instance.id for instance in listed}
    present = [node for node in fleet.nodes.values() if not node.gone]
    return [node.id for node in present if node.instance and node.instance not in names]


def reconcile(
    fleet: Fleet, listed: list[Instance], missing: Sequence[NodeId], seen: Seen
) -> Findings:
    return InventoryReconciliation(
        fleet,
        CLUSTER,
        Listing(provider=SIM, begun_at=NOW, instances=listed),
        missing=missing,
        node_of={x.instance: x.id for x in fleet.nodes.values() if x.instance and not x.gone},
        before=seen,
        stopped_at={NodeId(NAMES[0]): NOW - timedelta(minutes=5)},
        is_silent=lambda node: node != NAMES[1],
        lag=timedelta(minutes=1),
        now=NOW,
    ).reconcile()


def comparable(findings: Findings) -> tuple[object, ...]:
    change = findings.change
    return (
        {node.id: node for node in change.nodes},
        {pool.name: pool for pool in change.pools},
        sorted(change.launches, key=repr),
        sorted((event.about, event.kind, event.reason) for event in change.events),
        findings.seen,
        sorted((instance.id for instance, _ in findings.to_terminate)),
    )


@given(rounds, st.booleans(), st.booleans())
def test_the_delta_of_a_listing_has_the_same_findings_as_the_whole_listing(
    rounds: list[tuple[dict, dict, list]],  # type: ignore[type-arg]
    keeps_objects: bool,
    sorted_by_name: bool,
) -> None:
    """`keeps_objects`: the provider returns the same objects for unchanged machines."""
    describe = cache(an_instance) if keeps_objects else an_instance
    fleet = apply(Fleet(), Change(pools=[a_pool(size=5, next_index=5)]))
    diff, seen = ListingDiff(SIM, ()), Seen()
    for changes, listed, again in rounds:
        nodes = [a_version_of(name, phase) for name, phase in changes.items() if phase]
        fleet = commit(fleet, [node for node in nodes if not _is_gone(fleet, node)], diff)
        known = sorted(listed.items()) if sorted_by_name else list(listed.items())
        instances = [describe(*key, *described) for key, described in known]
        twice = zip(known, again, strict=False)
        instances += [describe(*key, *described) for (key, _), described in twice]
        delta = diff.diff(instances)
        whole = reconcile(fleet, instances, missing_from(fleet, instances), seen)
        found = reconcile(fleet, list(delta.instances), delta.missing, seen)
        assert comparable(found) == comparable(whole)
        before, fleet = fleet, apply(fleet, found.change)
        for node in found.change.nodes:
            diff.changed(before.nodes.get(node.id), node)
        unsettled = {*found.seen.foreign, *found.seen.orphans}
        diff.mark_processed(unsettled=unsettled)
        seen = found.seen


def commit(fleet: Fleet, nodes: list[Node], diff: ListingDiff) -> Fleet:
    for node in nodes:
        diff.changed(fleet.nodes.get(node.id), node)
    return apply(fleet, Change(nodes=nodes))


def _is_gone(fleet: Fleet, node: Node) -> bool:
    known = fleet.nodes.get(node.id)
    return known is not None and known.gone


def test_a_node_that_changes_before_the_findings_are_committed_is_compared_again() -> None:
    machine = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    requested = a_version_of(NAMES[0], Phase.REQUESTED)
    diff = ListingDiff(SIM, [requested])
    assert list(diff.diff([machine]).instances) == [machine]

    diff.changed(requested, a_version_of(NAMES[0], Phase.BOOTING))
    diff.mark_processed(unsettled=set())

    assert list(diff.diff([machine]).instances) == [machine]
    diff.mark_processed(unsettled=set())
    assert list(diff.diff([machine]).instances) == []


def test_a_machine_with_a_new_address_is_compared_again() -> None:
    diff = ListingDiff(SIM, [a_version_of(NAMES[0], Phase.BOOTING)])
    machine = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    diff.diff([machine])
    diff.mark_processed(unsettled=set())
    assert list(diff.diff([machine]).instances) == []
    moved = an_instance(NAMES[0], 0, InstanceStatus.RUNNING, "10.0.0.2")
    assert list(diff.diff([moved]).instances) == [moved]


def test_a_machine_listed_as_ended_is_compared_again_if_it_lives_after_all() -> None:
    leaving = a_version_of(NAMES[0], Phase.TERMINATING)
    diff = ListingDiff(SIM, [leaving])
    ended = an_instance(NAMES[0], 0, InstanceStatus.TERMINATED)
    diff.diff([ended])
    diff.changed(leaving, leaving.move_to(Phase.GONE, at=NOW))
    diff.mark_processed(unsettled=set())
    assert list(diff.diff([ended]).instances) == [ended]
    diff.mark_processed(unsettled=set())
    assert list(diff.diff([ended]).instances) == []
    alive = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    assert list(diff.diff([alive]).instances) == [alive], "it must not exist"


def test_a_machine_that_vanishes_is_missing_until_it_is_listed_again() -> None:
    ready = a_version_of(NAMES[0], Phase.READY)
    diff = ListingDiff(SIM, [ready])
    machine = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    assert list(diff.diff([machine]).missing) == []
    assert list(diff.diff([]).missing) == [ready.id]
    assert list(diff.diff([machine]).missing) == []
