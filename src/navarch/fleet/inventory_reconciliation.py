"""Reconciliation of a listing with the fleet: observed, missing and orphaned machines."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

import msgspec

from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.ownership import CLUSTER, Cluster, Owner
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.instance_state import (
    Listing,
    adopted,
    can_be_adopted,
    is_machine_of,
    next_index_after,
    orphan_launch,
    seen,
)

LISTINGS_MIN = 3
"""In how many listings in a row a machine must be seen, or missing, before any action."""

LISTINGS_TOGETHER = 30
VANISHED_MIN = 3
VANISHED_SHARE_MAX = 0.1
"""If more than this share of a provider's machines is missing, and at least that many, the listing
is doubted: a machine must be missing from more listings, about half an hour. It would be terminated
as an orphan when it is listed again."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier listings of the same provider showed."""

    orphans: Mapping[InstanceId, int] = msgspec.field(default_factory=dict)
    """In how many listings each machine of this cluster without a node was seen."""
    missed: Mapping[NodeId, int] = msgspec.field(default_factory=dict)
    """In how many listings in a row the machine of each node was missing."""
    closed: AbstractSet[InstanceId] = frozenset()
    """Ended machines without a node that have their end in the ledger."""
    foreign: AbstractSet[InstanceId] = frozenset()
    """Machines of other owners that were reported already."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a reconciliation: a change to commit, and then machines to terminate."""

    change: Change
    seen: Seen
    to_terminate: tuple[tuple[Instance, Owner], ...]


@dataclass
class InventoryReconciliation:
    """Compares one listing with the fleet and collects the differences."""

    fleet: Fleet
    cluster: Cluster
    listing: Listing
    _: KW_ONLY
    missing: Sequence[NodeId]
    """Nodes with a machine that is not listed."""
    node_of: Mapping[InstanceId, NodeId]
    """The machines that nodes hold."""
    before: Seen
    stopped_at: Mapping[NodeId, datetime]
    is_silent: Callable[[NodeId], bool]
    lag: timedelta
    now: datetime
    _nodes: dict[NodeId, Node] = field(init=False, default_factory=dict)
    _pools: dict[PoolName, Pool] = field(init=False, default_factory=dict)
    _launches: list[Launch] = field(init=False, default_factory=list)
    _events: list[Event] = field(init=False, default_factory=list)
    _orphans: dict[InstanceId, int] = field(init=False, default_factory=dict)
    _missed: dict[NodeId, int] = field(init=False, default_factory=dict)
    _closed: set[InstanceId] = field(init=False, default_factory=set)
    _foreign: list[Instance] = field(init=False, default_factory=list)
    _to_terminate: list[tuple[Instance, Owner]] = field(init=False, default_factory=list)
    _claimed: dict[Token, InstanceId] = field(init=False, default_factory=dict)

    def reconcile(self) -> Findings:
        """Return everything that the listing changes."""
        for instance in self.listing.instances:
            self._place(instance)
        listings_min = self._listings_min()
        for node in self.missing:
            self._absent(self.fleet.nodes[node], listings_min)
        new = [x for x in self._foreign if x.id not in self.before.foreign]
        if new:
            # Foreign machines with the name of this cluster, but without its signature.
            forged = [x.id for x in new if x.labels.get(CLUSTER) == self.cluster.id]
            named = ", ".join(x.id for x in new[:10]) + (", …" if len(new) > 10 else "")
            reason = f"{len(new)} machines that are not ours, never touched: {named}"
            if forged:
                reason += f"; {', '.join(forged)} claim to be, without the signature"
            subject = about("provider", self.listing.provider)
            self._events.append(
                Event(at=self.now, about=subject, kind="provider.strangers", reason=reason)
            )
        change = Change(
            pools=list(self._pools.values()),
            nodes=list(self._nodes.values()),
            launches=self._launches,
            events=self._events,
            guards=list(self._pools),
        )
        foreign = frozenset([instance.id for instance in self._foreign])
        after = Seen(
            orphans=self._orphans, closed=self._closed, missed=self._missed, foreign=foreign
        )
        return Findings(change=change, seen=after, to_terminate=tuple(self._to_terminate))

    def _place(self, instance: Instance) -> None:
        holder = self.fleet.nodes.get(self.node_of.get(instance.id, NodeId("")))
        if holder is not None:
            # Whatever its labels say: a cloud may lose or mix them up.
            self._observed(holder, instance)
            return
        owner = self.cluster.owner(instance.labels)
        if owner is None:
            self._foreign.append(instance)
            return
        node = self.fleet.nodes.get(owner.node)
        if node is not None:
            if is_machine_of(node, owner, instance) and self._claims(owner, instance):
                self._observed(node, instance)
                return
        elif (
            can_be_adopted(owner, instance, self.fleet)
            and self._claims(owner, instance)
            and self._room_for(owner.pool)
        ):
            self._adopt(owner, instance)
            return
        self._orphaned(owner, instance)

    def _claims(self, owner: Owner, instance: Instance) -> bool:
        """Return whether it is the first machine with its token: a second one must not stay."""
        return self._claimed.setdefault(owner.token, instance.id) == instance.id

    def _observed(self, node: Node, instance: Instance) -> None:
        if node.gone:
            return
        after = seen(node, instance, now=self.now)
        if after is node:
            return
        self._nodes[node.id] = after
        if after.gone:
            self._end(node, after, "the provider ended the machine")
        elif after.phase is not node.phase:
            self._note(after, f"node.{after.phase}", f"the provider lists it as {instance.status}")
        else:
            self._note(after, "node.observed", f"{instance.id} is listed as {instance.status}")

    def _listings_min(self) -> int:
        """Return in how many listings in a row a machine must be missing to have vanished."""
        nodes = self.fleet.nodes
        missing = [name for name in self.missing if nodes[name].counts]
        if len(missing) < VANISHED_MIN:
            return LISTINGS_MIN
        provider = self.listing.provider
        there = sum(node.counts and node.provider == provider for node in nodes.values())
        return LISTINGS_TOGETHER if len(missing) > VANISHED_SHARE_MAX * there else LISTINGS_MIN

    def _absent(self, node: Node, listings_min: int) -> None:
        assert node.launch is not None, node.id
        born_at = node.launch.launched_at or node.launch.asked_at
        if self.listing.begun_at < born_at + self.lag:
            return
        missed = self.before.missed.get(node.id, 0) + 1
        stopped_at = self.stopped_at.get(node.id)
        if stopped_at is not None and self.listing.begun_at >= stopped_at + self.lag:
            reason = "the machine is no longer listed"
            after = lifecycle.gone(node, reason, now=self.now)
            assert after.launch is not None, node.id
            after = evolve(after, launch=evolve(after.launch, ended_at=stopped_at))
            self._end(node, after, reason)
        elif missed >= listings_min and (node.registered_at is None or self.is_silent(node.id)):
            reason = f"the machine vanished: absent from {missed} listings"
            self._end(node, lifecycle.gone(node, reason, now=self.now), reason)
        else:
            self._missed[node.id] = missed

    def _end(self, node: Node, after: Node, reason: str) -> None:
        """Record `after`, the end of `node`, in the journal and the ledger."""
        if node.phase is Phase.TERMINATING and node.retiring is not None:
            reason = f"{reason}, as intended: {node.retiring.reason}"
        self._nodes[node.id] = after
        self._note(after, "node.gone", reason)
        if after.launch is not None:
            self._launches.append(after.launch)

    def _adopt(self, owner: Owner, instance: Instance) -> None:
        node = adopted(owner, instance, now=self.now)
        pool = self._pools.get(owner.pool) or self.fleet.pools[owner.pool]
        index = next_index_after(owner, pool.next_index)
        self._pools[pool.name] = evolve(pool, next_index=index)
        self._nodes[node.id] = node
        reason = f"{instance.id} is ours by its signed labels; the store had forgotten it"
        self._note(node, "node.adopted", reason)

    def _room_for(self, name: PoolName) -> bool:
        adopted = sum(n.pool == name and n.id not in self.fleet.nodes for n in self._nodes.values())
        return self.fleet.present_in(name) + adopted < self.fleet.pools[name].nodes_max

    def _orphaned(self, owner: Owner, instance: Instance) -> None:
        times = self.before.orphans.get(instance.id, 0) + 1
        self._orphans[instance.id] = times
        if instance.status is InstanceStatus.TERMINATED:
            if instance.id not in self.before.closed:
                self._launches.append(orphan_launch(owner, instance, now=self.now))
            self._closed.add(instance.id)
        elif times == 1:
            self._launches.append(orphan_launch(owner, instance, now=self.now))
        if instance.status.alive and times >= LISTINGS_MIN:
            self._to_terminate.append((instance, owner))

    def _note(self, node: Node, kind: str, reason: str) -> None:
        facts = {"phase": str(node.phase)}
        if node.instance:
            facts["instance"] = node.instance
        subject = about("node", node.id)
        self._events.append(
            Event(at=self.now, about=subject, kind=kind, reason=reason, facts=facts)
        )
