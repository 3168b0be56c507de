"""Inventory reconciliation: one listing compared with the fleet."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Node, Phase, Retirement
from navarch.core.ownership import CLUSTER as CLUSTER_LABEL
from navarch.core.ownership import NODE, SIGNATURE, TOKEN, Cluster, Owner
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.instance_state import Listing
from navarch.fleet.inventory_reconciliation import Findings, InventoryReconciliation, Seen
from navarch.fleet.listing_diff import ListingDiff
from navarch.testing.worlds import NOW, a_node, a_pool

CLUSTER = Cluster(id="cluster-1", secret=b"s" * 32)
LAG = timedelta(minutes=1)
GOING = Retirement(reason="XID 79")


def a_machine(
    name: str = "i-training-0",
    node: str = "training-0",
    *,
    token: str | None = None,
    status: InstanceStatus = InstanceStatus.RUNNING,
    labels: Mapping[str, str] | None = None,
    ended_at: datetime | None = None,
) -> Instance:
    owner = Owner(
        node=NodeId(node), pool=PoolName("training"), token=Token(token or f"launch-{node}")
    )
    return Instance(
        id=InstanceId(name),
        provider=ProviderName("sim"),
        status=status,
        instance_type="h100-8x",
        region="region-1",
        labels=CLUSTER.labels(owner) if labels is None else labels,
        launched_at=NOW - timedelta(hours=1),
        ended_at=ended_at,
    )


def reconcile(
    nodes: Sequence[Node],
    machines: Sequence[Instance],
    *,
    before: Seen | None = None,
    stopped_at: Mapping[NodeId, datetime] | None = None,
    silent: bool = True,
    pool: Pool | None = None,
) -> Findings:
    fleet = apply(Fleet(), Change(pools=[pool or a_pool(next_index=10)], nodes=nodes))
    listing = Listing(provider=ProviderName("sim"), begun_at=NOW, instances=machines)
    diff = ListingDiff(listing.provider, nodes)
    return InventoryReconciliation(
        fleet,
        CLUSTER,
        listing,
        missing=diff.diff(listing.instances).missing,
        node_of=diff.node_of,
        before=before or Seen(),
        stopped_at=stopped_at or {},
        is_silent=lambda _: silent,
        lag=LAG,
        now=NOW,
    ).reconcile()


def thrice(nodes: Sequence[Node], machines: Sequence[Instance], **given: object) -> Findings:
    findings = reconcile(nodes, machines, **given)  # type: ignore[arg-type]
    for _ in range(2):
        findings = reconcile(nodes, machines, before=findings.seen, **given)  # type: ignore[arg-type]
    return findings


def phases(findings: Findings) -> dict[str, Phase]:
    return {node.id: node.phase for node in findings.change.nodes}


def test_a_listing_that_matches_the_fleet_has_no_findings() -> None:
    assert reconcile([a_node("training-0")], [a_machine()]).change.empty


def test_a_launch_of_unknown_outcome_is_resolved_by_its_token() -> None:
    findings = reconcile([a_node("training-0", phase=Phase.REQUESTED)], [a_machine()])
    (node,) = findings.change.nodes
    assert (node.phase, node.instance) == (Phase.BOOTING, "i-training-0")


def test_a_machine_ended_by_the_provider_is_gone_and_its_ledger_entry_closed() -> None:
    ended_at = NOW - timedelta(minutes=3)
    machine = a_machine(status=InstanceStatus.TERMINATED, ended_at=ended_at)
    findings = reconcile([a_node("training-0")], [machine])
    assert phases(findings) == {"training-0": Phase.GONE}
    assert [launch.ended_at for launch in findings.change.launches] == [ended_at]


def test_a_terminated_node_is_gone_once_a_listing_after_the_lag_lacks_it() -> None:
    node = a_node("training-0", phase=Phase.TERMINATING, retiring=GOING)
    recently = {node.id: NOW - LAG / 2}
    long_ago = {node.id: NOW - LAG}
    assert phases(reconcile([node], [], stopped_at=recently)) == {}
    assert phases(reconcile([node], [], stopped_at=long_ago)) == {"training-0": Phase.GONE}


def test_a_machine_must_be_missing_three_times_and_silent_to_have_vanished() -> None:
    node = a_node("training-0")
    assert phases(reconcile([node], [])) == {}
    assert phases(thrice([node], [])) == {"training-0": Phase.GONE}
    assert phases(thrice([node], [], silent=False)) == {}


def test_a_listing_that_lacks_many_machines_is_doubted_for_half_an_hour() -> None:
    nodes = [a_node(f"training-{i}") for i in range(20)]
    listed = [a_machine(f"i-training-{i}", f"training-{i}") for i in range(20)]
    assert phases(thrice(nodes, listed[3:])) == {}, "three of twenty"
    assert len(phases(thrice(nodes, listed[2:]))) == 2, "two of twenty"
    late = Seen(missed={node.id: 28 for node in nodes})
    assert phases(reconcile(nodes, [], before=late)) == {}
    late = Seen(missed={node.id: 29 for node in nodes})
    assert len(phases(reconcile(nodes, [], before=late))) == 20


def test_a_machine_that_reappears_resets_the_count_of_misses() -> None:
    node = a_node("training-0")
    findings = reconcile([node], [], before=Seen(missed={node.id: 2}), silent=False)
    assert findings.seen.missed == {node.id: 3}
    assert reconcile([node], [a_machine()], before=findings.seen).seen.missed == {}


def test_a_machine_too_new_for_the_listing_is_not_missing() -> None:
    node = a_node("training-0", phase=Phase.BOOTING)
    assert node.launch is not None
    young = evolve(node, launch=evolve(node.launch, launched_at=NOW - LAG / 2))
    assert reconcile([young], []).seen.missed == {}


def test_a_leaked_machine_is_terminated_only_after_three_listings() -> None:
    gone = a_node("training-0", phase=Phase.GONE, retiring=GOING)
    assert reconcile([gone], [a_machine()]).to_terminate == ()
    ((machine, owner),) = thrice([gone], [a_machine()]).to_terminate
    assert (machine.id, owner.node) == ("i-training-0", "training-0")


def test_a_machine_with_an_older_token_of_the_node_is_leaked() -> None:
    findings = thrice([a_node("training-0")], [a_machine("i-2", token="older"), a_machine()])
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-2"]
    assert phases(findings) == {}


def test_an_orphan_listed_first_does_not_replace_the_machine_of_the_node() -> None:
    """Found by a random run: the second machine of the list was terminated, the right one."""
    node = a_node("training-0", phase=Phase.REQUESTED)
    findings = thrice([node], [a_machine("i-1", token="older"), a_machine("i-2")])
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-1"]
    assert [found.instance for found in findings.change.nodes] == ["i-2"]


def test_the_second_of_two_machines_with_one_token_is_terminated() -> None:
    findings = thrice([a_node("training-0")], [a_machine(), a_machine("i-twin")])
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-twin"]


def test_a_second_machine_listed_first_does_not_replace_the_machine_of_a_node() -> None:
    findings = thrice([a_node("training-0")], [a_machine("i-twin"), a_machine()])
    assert findings.change.nodes == []
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-twin"]


def test_of_two_machines_under_one_open_launch_the_first_listed_stays() -> None:
    node = a_node("training-0", phase=Phase.REQUESTED)
    findings = thrice([node], [a_machine("i-1"), a_machine("i-twin")])
    assert [found.instance for found in findings.change.nodes] == ["i-1"]
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-twin"]


def test_of_two_lost_machines_under_one_launch_only_one_is_adopted() -> None:
    machines = [a_machine("i-1", "training-12"), a_machine("i-twin", "training-12")]
    findings = thrice([], machines, pool=a_pool(size=3, next_index=3))
    assert [found.instance for found in findings.change.nodes] == ["i-1"]
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-twin"]


def test_a_machine_of_a_refused_launch_is_an_orphan() -> None:
    node = a_node("training-0", phase=Phase.REQUESTED)
    assert node.launch is not None
    refused = evolve(node, launch=evolve(node.launch, refused="sold out"))
    findings = thrice([refused], [a_machine()])
    assert findings.change.nodes == []
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-training-0"]


def test_no_machine_is_adopted_into_a_deleted_pool() -> None:
    pool = a_pool(next_index=3, deleted=True)
    assert reconcile([], [a_machine("i-9", "training-12")], pool=pool).change.nodes == []


@pytest.mark.parametrize(
    "changed", [{NODE: "training-1"}, {TOKEN: "another"}, {CLUSTER_LABEL: "cluster-2"}], ids=str
)
def test_a_signature_is_valid_for_one_machine_only(changed: dict[str, str]) -> None:
    labels = {**a_machine().labels, **changed}
    assert CLUSTER.owner(labels) is None
    assert thrice([], [a_machine("i-copy", labels=labels)]).to_terminate == ()


def test_a_machine_without_our_labels_is_reported_once_and_never_touched() -> None:
    foreign = a_machine("i-theirs", labels={"owner": "somebody else"})
    findings = thrice([], [foreign])
    assert findings.to_terminate == ()
    first = reconcile([], [foreign])
    assert ["i-theirs" in event.reason for event in first.change.events] == [True]
    assert reconcile([], [foreign], before=first.seen).change.empty


@pytest.mark.parametrize("labels", ["of another node", "of a node that is gone", "none"])
def test_the_machine_of_a_node_is_never_an_orphan_whatever_its_labels_say(labels: str) -> None:
    nodes = [
        a_node("training-0"),
        a_node("training-1", phase=Phase.REQUESTED),
        a_node("training-2", phase=Phase.GONE),
    ]
    claimed = {"of another node": "training-1", "of a node that is gone": "training-2"}.get(labels)
    machine = a_machine(node=claimed) if claimed else a_machine(labels={})
    findings = thrice(nodes, [machine])
    assert findings.to_terminate == ()
    assert findings.seen.foreign == frozenset()
    assert phases(findings) == {}


def test_a_machine_with_our_labels_but_no_signature_is_not_ours() -> None:
    forged = {**a_machine().labels, SIGNATURE: "0" * 32}
    findings = thrice([], [a_machine("i-forged", labels=forged)])
    assert findings.to_terminate == ()
    first = reconcile([], [a_machine("i-forged", labels=forged)])
    assert "without the signature" in first.change.events[0].reason


def test_a_machine_of_another_cluster_is_not_ours() -> None:
    other = Cluster(id="cluster-2", secret=b"s" * 32)
    owner = Owner(node=NodeId("training-0"), pool=PoolName("training"), token=Token("t"))
    assert thrice([], [a_machine(labels=other.labels(owner))]).to_terminate == ()


def test_a_machine_missing_from_the_store_is_adopted() -> None:
    findings = reconcile([], [a_machine("i-9", "training-12")], pool=a_pool(next_index=3))
    (node,) = findings.change.nodes
    assert (node.id, node.instance, node.phase) == ("training-12", "i-9", Phase.BOOTING)
    assert [pool.next_index for pool in findings.change.pools] == [13]


def test_missing_machines_are_adopted_up_to_the_maximum() -> None:
    machines = [a_machine(f"i-{n}", f"training-{n}") for n in range(5)]
    findings = thrice([], machines, pool=a_pool(size=1, nodes_max=2))
    assert [node.id for node in findings.change.nodes] == ["training-0", "training-1"]
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-2", "i-3", "i-4"]


def test_a_machine_with_a_name_that_was_issued_here_is_not_adopted() -> None:
    findings = thrice([], [a_machine("i-9", "training-2")], pool=a_pool(next_index=3))
    assert findings.change.nodes == []
    assert [machine.id for machine, _ in findings.to_terminate] == ["i-9"]


def test_the_ledger_records_the_cost_of_an_orphan_from_launch_to_end() -> None:
    gone = a_node("training-0", phase=Phase.GONE, retiring=GOING)
    alive = reconcile([gone], [a_machine()])
    assert [launch.ended_at for launch in alive.change.launches] == [None]
    dead = a_machine("i-2", token="older", status=InstanceStatus.TERMINATED, ended_at=NOW)
    closed = reconcile([gone], [dead], before=alive.seen)
    assert [launch.ended_at for launch in closed.change.launches] == [NOW]
    assert reconcile([gone], [dead], before=closed.seen).change.launches == []


def an_adopted_node(**facts: object) -> Node:
    node = a_node("training-0", **facts)  # type: ignore[arg-type]
    assert node.launch is not None
    return evolve(node, launch=evolve(node.launch, adopted=True, launched_at=NOW, asked_at=NOW))


def test_an_adopted_machine_is_known_by_its_id_after_a_restart() -> None:
    findings = reconcile([an_adopted_node()], [a_machine(labels={"team": "ml"})])
    assert findings.to_terminate == ()
    assert findings.seen.foreign == frozenset()
    # Its age at the cloud is no cost of the pool.
    assert all(
        node.launch is not None and node.launch.launched_at == NOW for node in findings.change.nodes
    )


def test_an_adopted_machine_that_was_terminated_is_gone() -> None:
    machine = a_machine(labels={}, status=InstanceStatus.TERMINATED)
    findings = reconcile([an_adopted_node(phase=Phase.TERMINATING, retiring=GOING)], [machine])
    assert phases(findings) == {"training-0": Phase.GONE}


def test_a_released_machine_is_foreign_and_never_terminated() -> None:
    host = evolve(a_node("training-0"), pool=None, launch=None)
    findings = thrice([host], [a_machine(labels={"team": "ml"})])
    assert findings.to_terminate == ()
    assert findings.seen.foreign == {"i-training-0"}
