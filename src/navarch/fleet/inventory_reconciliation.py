"""One listing held against the fleet: who is there, who is missing, who should not be there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.core.drafting import drafted
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster, Owner
from navarch.core.pool import Pool
from navarch.fleet import lifecycle
from navarch.fleet.instance_state import (
    Listing,
    can_be_taken_back,
    claims_to_be_ours,
    expected,
    is_machine_of,
    next_index_after,
    seen,
    stray_launch,
    taken_back,
)

LISTINGS_MIN = 3
"""How often in a row a machine must be seen, or missed, before anything is done about it."""


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What earlier listings of the same provider have shown."""

    strays: Mapping[InstanceId, int] = field(default_factory=dict)
    """In how many listings a machine of ours was seen that no node wants."""
    missed: Mapping[NodeId, int] = field(default_factory=dict)
    """In how many listings in a row a node's machine was absent."""
    closed: AbstractSet[InstanceId] = frozenset()
    """Such machines that have ended, and whose end is in the ledger."""
    strangers: AbstractSet[InstanceId] = frozenset()
    """Machines of others, reported already."""


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a listing teaches: a change to write down, and then machines to end."""

    change: Change
    seen: Seen
    condemned: tuple[tuple[Instance, Owner], ...]


class InventoryReconciliation:
    """Goes through one listing, collecting what is different from what we thought."""

    def __init__(
        self,
        fleet: Fleet,
        cluster: Cluster,
        listing: Listing,
        *,
        missing: Sequence[NodeId] | None = None,
        before: Seen,
        stopped_at: Mapping[NodeId, datetime],
        is_silent: Callable[[NodeId], bool],
        lag: timedelta,
        now: datetime,
    ) -> None:
        """`missing` are the nodes whose machines are not listed, where that is known already."""
        self._fleet = fleet
        self._cluster = cluster
        self._listing = listing
        self._missing = missing
        self._before = before
        self._stopped_at = stopped_at
        self._is_silent = is_silent
        self._lag = lag
        self._now = now
        self._nodes: dict[NodeId, Node] = {}
        self._pools: dict[PoolName, Pool] = {}
        self._launches: list[Launch] = []
        self._events: list[Event] = []
        self._strays: dict[InstanceId, int] = {}
        self._missed: dict[NodeId, int] = {}
        self._closed: set[InstanceId] = set()
        self._strangers: list[Instance] = []
        self._condemned: list[tuple[Instance, Owner]] = []
        self._claimed: dict[Token, InstanceId] = {}

    def learn(self) -> Findings:
        """Return everything the listing teaches."""
        for instance in self._listing.instances:
            self._place(instance)
        for node in self._who_is_missing():
            self._absent(self._fleet.nodes[node])
        self._report_strangers()
        change = Change(
            pools=list(self._pools.values()),
            nodes=list(self._nodes.values()),
            launches=self._launches,
            events=self._events,
            guards=list(self._pools),
        )
        strangers = frozenset([instance.id for instance in self._strangers])
        after = Seen(
            strays=self._strays, closed=self._closed, missed=self._missed, strangers=strangers
        )
        return Findings(change=change, seen=after, condemned=tuple(self._condemned))

    def _who_is_missing(self) -> Iterable[NodeId]:
        if self._missing is not None:
            return self._missing
        missing = dict(expected(self._fleet, self._listing.provider))
        for instance in self._listing.instances:
            missing.pop(instance.id, None)
        return missing.values()

    def _place(self, instance: Instance) -> None:
        owner = self._cluster.owner(instance.labels)
        if owner is None:
            self._strangers.append(instance)
            return
        node = self._fleet.nodes.get(owner.node)
        if node is not None:
            if is_machine_of(node, owner, instance) and self._claims(owner, instance):
                self._ours(node, instance)
                return
        elif (
            can_be_taken_back(owner, instance, self._fleet)
            and self._claims(owner, instance)
            and self._room_for(owner.pool)
        ):
            self._take_back(owner, instance)
            return
        self._leaked(owner, instance)

    def _claims(self, owner: Owner, instance: Instance) -> bool:
        """Return whether it is the first machine under its token: a second must not stay."""
        return self._claimed.setdefault(owner.token, instance.id) == instance.id

    def _ours(self, node: Node, instance: Instance) -> None:
        if node.gone:
            return
        after = seen(node, instance, now=self._now)
        if after is node:
            return
        self._nodes[node.id] = after
        if after.gone:
            self._note(after, "node.gone", _why_gone(node, "the provider ended the machine"))
            self._archive(after)
        elif after.phase is not node.phase:
            self._note(after, f"node.{after.phase}", f"the provider lists it as {instance.status}")
        else:
            self._note(after, "node.observed", f"{instance.id} is listed as {instance.status}")

    def _absent(self, node: Node) -> None:
        assert node.launch is not None, node.id
        born_at = node.launch.launched_at or node.launch.asked_at
        if self._listing.begun_at < born_at + self._lag:
            return
        missed = self._before.missed.get(node.id, 0) + 1
        stopped_at = self._stopped_at.get(node.id)
        if stopped_at is not None and self._listing.begun_at >= stopped_at + self._lag:
            self._let_go(node, "the machine is no longer listed", ended_at=stopped_at)
        elif missed >= LISTINGS_MIN and (node.registered_at is None or self._is_silent(node.id)):
            self._let_go(node, f"the machine vanished: absent from {missed} listings")
        else:
            self._missed[node.id] = missed

    def _let_go(self, node: Node, reason: str, *, ended_at: datetime | None = None) -> None:
        after = lifecycle.gone(node, reason, now=self._now)
        if ended_at is not None and after.launch is not None:
            after = evolve(after, launch=evolve(after.launch, ended_at=ended_at))
        self._nodes[node.id] = after
        self._note(after, "node.gone", _why_gone(node, reason))
        self._archive(after)

    def _take_back(self, owner: Owner, instance: Instance) -> None:
        node = taken_back(owner, instance, now=self._now)
        pool = self._pools.get(owner.pool) or self._fleet.pools[owner.pool]
        index = next_index_after(owner, pool.next_index)
        self._pools[pool.name] = evolve(pool, next_index=index)
        self._nodes[node.id] = node
        reason = f"{instance.id} is ours by its signed labels; the store had forgotten it"
        self._note(node, "node.adopted", reason)

    def _room_for(self, name: PoolName) -> bool:
        pool = self._fleet.pools[name]
        held = sum(not node.gone for node in self._fleet.in_pool(name).values())
        adopted = sum(
            n.pool == name and n.id not in self._fleet.nodes for n in self._nodes.values()
        )
        return held + adopted < pool.nodes_max

    def _leaked(self, owner: Owner, instance: Instance) -> None:
        times = self._before.strays.get(instance.id, 0) + 1
        self._strays[instance.id] = times
        if instance.status is InstanceStatus.TERMINATED:
            if instance.id not in self._before.closed:
                self._launches.append(stray_launch(owner, instance, now=self._now))
            self._closed.add(instance.id)
        elif times == 1:
            self._launches.append(stray_launch(owner, instance, now=self._now))
        if instance.status.alive and times >= LISTINGS_MIN:
            self._condemned.append((instance, owner))

    def _archive(self, node: Node) -> None:
        if node.launch is not None:
            self._launches.append(node.launch)

    def _note(self, node: Node, kind: str, reason: str) -> None:
        facts = {"phase": str(node.phase)}
        instance = node.instance
        if instance:
            facts["instance"] = instance
        subject = about("node", node.id)
        self._events.append(
            Event(at=self._now, about=subject, kind=kind, reason=reason, facts=facts)
        )

    def _report_strangers(self) -> None:
        new = [x for x in self._strangers if x.id not in self._before.strangers]
        if not new:
            return
        forged = [x.id for x in new if claims_to_be_ours(x, self._cluster)]
        named = ", ".join(x.id for x in new[:10]) + (", …" if len(new) > 10 else "")
        reason = f"{len(new)} machines that are not ours, never touched: {named}"
        if forged:
            reason += f"; {', '.join(forged)} claim to be, without the signature"
        subject = about("provider", self._listing.provider)
        self._events.append(
            Event(at=self._now, about=subject, kind="provider.strangers", reason=reason)
        )


def _why_gone(node: Node, reason: str) -> str:
    if node.phase is Phase.TERMINATING and node.retiring is not None:
        return f"{reason}, as intended: {node.retiring.reason}"
    return reason
