"""A listing sifted for news teaches what the whole listing teaches."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core import stretches
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.core.stretches import Register, Stretches
from navarch.fleet import listing_diff
from navarch.fleet.instance_state import Listing
from navarch.fleet.inventory_reconciliation import Findings, InventoryReconciliation, Seen
from navarch.testing.worlds import NOW, a_node, a_pool

SIM = ProviderName("sim")
CLUSTER = Cluster(id="cluster-1", secret=b"s" * 32)
NAMES = [f"training-{index}" for index in range(5)]
PHASES = [Phase.REQUESTED, Phase.BOOTING, Phase.READY, Phase.DRAINING, Phase.TERMINATING]

machines = st.dictionaries(
    st.tuples(st.sampled_from([*NAMES, "training-7", "stranger"]), st.integers(0, 1)),
    st.tuples(st.sampled_from(list(InstanceStatus)), st.sampled_from(["", "10.0.0.1"])),
)
operations = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([None, *PHASES]))
repeated = st.integers(0, 2)
"""How many machines of a listing are listed again at its end."""
rounds = st.lists(st.tuples(operations, machines, repeated), min_size=1, max_size=8)


def an_instance(name: str, twin: int, status: InstanceStatus, address: str = "") -> Instance:
    owner = Owner(node=NodeId(name), pool=PoolName("training"), token=Token(f"launch-{name}"))
    return Instance(
        id=InstanceId(f"i-{name}" + "-twin" * twin),
        provider=SIM,
        status=status,
        instance_type="h100-8x",
        private_address=address,
        labels={} if name == "stranger" else CLUSTER.labels(owner),
        launched_at=NOW - timedelta(hours=1),
    )


def a_version_of(name: str, phase: Phase) -> Node:
    node = a_node(name, phase=phase)
    going = Retirement(reason="XID 79") if phase is Phase.TERMINATING else None
    return evolve(node, retiring=going)


def learn(
    fleet: Fleet, listed: list[Instance], missing: list[NodeId] | None, seen: Seen
) -> Findings:
    return InventoryReconciliation(
        fleet,
        CLUSTER,
        Listing(provider=SIM, begun_at=NOW, instances=listed),
        missing=missing,
        before=seen,
        stopped_at={NodeId(NAMES[0]): NOW - timedelta(minutes=5)},
        is_silent=lambda node: node != NAMES[1],
        lag=timedelta(minutes=1),
        now=NOW,
    ).reconcile()


def told(lesson: Findings) -> tuple[object, ...]:
    change = lesson.change
    return (
        {node.id: node for node in change.nodes},
        {pool.name: pool for pool in change.pools},
        sorted(change.launches, key=repr),
        sorted((event.about, event.kind, event.reason) for event in change.events),
        lesson.seen,
        sorted((instance.id for instance, _ in lesson.to_terminate)),
    )


@pytest.mark.parametrize("few", [0, 2, 32])
@pytest.mark.parametrize("stretch", [None, 1, 2, 4])
@given(rounds, st.booleans(), st.booleans())
def test_what_is_passed_over_would_have_taught_nothing(
    stretch: int | None,
    few: int,
    rounds: list[tuple[dict, dict, int]],  # type: ignore[type-arg]
    kept: bool,
    sorted_by_name: bool,
) -> None:
    """`kept`: the provider hands out the same objects again where nothing has changed.

    One that keeps its machines in stretches hands out whole stretches again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing_diff, "FEW", few)
        patch.setattr(stretches, "STRETCH_MAX", stretch)
        check(rounds, kept=kept, sorted_by_name=sorted_by_name, in_stretches=stretch is not None)


def check(
    rounds: list[tuple[dict, dict, int]],  # type: ignore[type-arg]
    *,
    kept: bool,
    sorted_by_name: bool,
    in_stretches: bool,
) -> None:
    register: Register[InstanceId, Instance] = Register()
    describe = cache(an_instance) if kept else an_instance
    fleet = apply(Fleet(), Change(pools=[a_pool(size=5, next_index=5)]))
    known_here, seen = listing_diff.ListingDiff(SIM, ()), Seen()
    for changes, listed, again in rounds:
        nodes = [a_version_of(name, phase) for name, phase in changes.items() if phase]
        nodes = [node for node in nodes if not _is_gone(fleet, node)]
        before, fleet = fleet, apply(fleet, Change(nodes=nodes))
        for node in nodes:
            known_here.changed(node, before.nodes.get(node.id))
        known = sorted(listed.items()) if sorted_by_name else listed.items()
        instances = [describe(*whose, *described) for whose, described in known]
        handed_out: Sequence[Instance]
        if in_stretches:
            handed_out = register_as_listed(register, instances)
            instances = list(handed_out)
        else:
            handed_out = instances = instances + instances[:again]
        news = known_here.diff(handed_out, fleet)
        unfamiliar = {instance.id for instance in news.instances}
        assert news.instances == [each for each in instances if each.id in unfamiliar]
        whole = learn(fleet, instances, None, seen)
        sifted = learn(fleet, list(news.instances), list(news.missing), seen)
        assert told(sifted) == told(whole)
        before, fleet = fleet, apply(fleet, sifted.change)
        for node in sifted.change.nodes:
            known_here.changed(node, before.nodes.get(node.id))
        unsettled = {*sifted.seen.foreign, *sifted.seen.orphans}
        known_here.mark_processed([n.id for n in sifted.change.nodes], fleet, unsettled=unsettled)
        seen = sifted.seen


def register_as_listed(
    register: Register[InstanceId, Instance], instances: list[Instance]
) -> Stretches[Instance]:
    """Bring a register up to date: who was there stays where it is, who is new is put last."""
    there = {instance.id for instance in instances}
    for known in list(register.listing()):
        if known.id not in there:
            register.drop(known.id)
    for instance in instances:
        register.put(instance.id, instance)
    listing = register.listing()
    assert sorted(listing, key=lambda each: each.id) == sorted(instances, key=lambda each: each.id)
    return listing


def _is_gone(fleet: Fleet, node: Node) -> bool:
    known = fleet.nodes.get(node.id)
    return known is not None and known.gone


def test_a_node_that_changes_while_lessons_are_written_down_is_looked_at_next_time() -> None:
    machine = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    asked_for = a_version_of(NAMES[0], Phase.REQUESTED)
    fleet = apply(Fleet(), Change(nodes=[asked_for]))
    known = listing_diff.ListingDiff(SIM, [asked_for])
    assert list(known.diff([machine], fleet).instances) == [machine]

    bought = a_version_of(NAMES[0], Phase.BOOTING)
    known.changed(bought, asked_for)
    known.mark_processed([], fleet, unsettled=set())

    fleet = apply(fleet, Change(nodes=[bought]))
    assert list(known.diff([machine], fleet).instances) == [machine]
    known.mark_processed([], fleet, unsettled=set())
    assert list(known.diff([machine], fleet).instances) == []


def test_that_a_machine_runs_is_no_news_where_it_was_known_to_come_up() -> None:
    booting = a_version_of(NAMES[0], Phase.BOOTING)
    fleet = apply(Fleet(), Change(nodes=[booting]))
    known = listing_diff.ListingDiff(SIM, [booting])
    known.diff([an_instance(NAMES[0], 0, InstanceStatus.PENDING)], fleet)
    known.mark_processed([], fleet, unsettled=set())
    running = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    assert list(known.diff([running], fleet).instances) == []
    moved = an_instance(NAMES[0], 0, InstanceStatus.RUNNING, "10.0.0.2")
    assert list(known.diff([moved], fleet).instances) == [moved]


def test_one_that_is_gone_and_listed_as_ended_is_not_looked_at_again() -> None:
    leaving = a_version_of(NAMES[0], Phase.TERMINATING)
    fleet = apply(Fleet(), Change(nodes=[leaving]))
    known = listing_diff.ListingDiff(SIM, [leaving])
    ended = an_instance(NAMES[0], 0, InstanceStatus.TERMINATED)
    known.diff([ended], fleet)
    gone = leaving.move_to(Phase.GONE, at=NOW)
    known.changed(gone, leaving)
    fleet = apply(fleet, Change(nodes=[gone]))
    known.mark_processed([gone.id], fleet, unsettled=set())
    assert list(known.diff([ended], fleet).instances) == []
    alive = an_instance(NAMES[0], 0, InstanceStatus.RUNNING)
    assert list(known.diff([alive], fleet).instances) == [alive], "it must not be there"
