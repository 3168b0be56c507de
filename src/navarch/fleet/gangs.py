"""Gangs: which are complete, which to abandon, and which members are missing.

A gang is stored only with its members, each of which has the gang's name, size and offering. So a
crash loses nothing: members, gaps and waiting times are counted again from the nodes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from navarch.core.ids import NodeId, ProviderName
from navarch.core.launch import Gang
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.misplaced import misplaced
from navarch.fleet.plan import Abandon, Release, Retire
from navarch.fleet.sizing import BUSY_PCT


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A gang, and its members that are meant to stay."""

    gang: Gang
    members: tuple[Node, ...]
    began_at: datetime
    """When its first member was requested."""

    @property
    def names(self) -> tuple[NodeId, ...]:
        """The names of its members."""
        return tuple(node.id for node in self.members)

    @property
    def waiting(self) -> bool:
        """Whether it has never been complete."""
        return any(node.waiting for node in self.members)

    @property
    def missing(self) -> int:
        """How many members it lacks."""
        return max(self.gang.nodes - len(self.members), 0)

    @property
    def bought(self) -> int:
        """How many machines it has."""
        return sum(node.instance is not None for node in self.members)

    @property
    def hopeless(self) -> bool:
        """Whether it has no machine and no open launch: every member was refused."""
        return all(node.launch is None and node.attempts for node in self.members)

    @property
    def serves(self) -> bool:
        """Whether all members take work."""
        return not self.missing and all(node.serving for node in self.members)

    @property
    def stuck(self) -> bool:
        """Whether a member was refused its machine and waits to retry."""
        return self.waiting and any(node.launch is None and node.attempts for node in self.members)

    @property
    def blocks(self) -> frozenset[str]:
        """The network blocks of its machines, as far as known."""
        return frozenset(
            node.topology.block for node in self.members if node.topology and node.topology.block
        )

    def crippled(self, hold: timedelta, now: datetime) -> bool:
        """Whether it was complete once, and lacks a member for longer than `hold`."""
        return not self.waiting and any(
            node.instance is None and now >= node.created_at + hold for node in self.members
        )


def group(known: Iterable[Node], staying: Iterable[Node]) -> list[Group]:
    """Return the gangs of a pool, oldest first."""
    members: dict[str, list[Node]] = {}
    for node in staying:
        if node.gang is not None:
            members.setdefault(node.gang.id, []).append(node)
    if not members:
        return []
    began: dict[str, datetime] = {}
    for node in known:
        if node.gang is not None:
            first = began.get(node.gang.id, node.created_at)
            began[node.gang.id] = min(first, node.created_at)
    return [
        Group(gang=found[0].gang, members=tuple(found), began_at=began[name])
        for name, found in sorted(members.items(), key=lambda pair: (began[pair[0]], pair[0]))
        if found[0].gang is not None
    ]


class GangPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The actions for incomplete gangs of a pool."""

    release: tuple[Release, ...] = ()
    abandon: tuple[Abandon, ...] = ()
    retire: tuple[Retire, ...] = ()
    """Members in another block than the rest."""
    wake_at: datetime | None = None


def plan_gangs(
    pool: Pool,
    groups: Sequence[Group],
    *,
    surveyed: Collection[ProviderName],
    now: datetime,
) -> GangPlan:
    """Return which gangs are complete, and which to abandon.

    A gang is complete once it has all its machines within one block. Providers in `surveyed` report
    the block of a machine; the others promise it. At the end of the hold time the promise is enough
    if no report contradicts it.
    """
    if not groups:
        return GangPlan()
    release: list[Release] = []
    abandon: list[Abandon] = []
    retire: list[Retire] = []
    moments: list[datetime] = []
    for each in groups:
        if not each.waiting:
            continue
        ends_at = each.began_at + pool.gang_hold
        outside = misplaced(each.gang, each.members)
        if outside and now < ends_at:
            retire += outside
            moments.append(ends_at)
        elif (
            not outside
            and each.bought == each.gang.nodes
            and (now >= ends_at or _is_seen(each, surveyed))
        ):
            where = f" in block {min(each.blocks)}" if each.blocks else ""
            reason = f"all {each.gang.nodes} machines are there{where}"
            release.append(Release(gang=each.gang, nodes=each.names, reason=reason))
        elif now >= ends_at or each.hopeless:
            late = f"not complete within {pool.gang_hold}"
            why = "every machine was refused" if each.hopeless else late
            abandon.append(_abandoned(each, why))
        elif (elder := _in_the_way_of(each, groups)) is not None:
            why = f"gives way to {elder.gang.id}, which lacks machines there too"
            abandon.append(_abandoned(each, why))
        else:
            moments.append(ends_at)
    return GangPlan(
        release=tuple(release),
        abandon=tuple(abandon),
        retire=tuple(retire),
        wake_at=min(moments, default=None),
    )


def _abandoned(each: Group, why: str) -> Abandon:
    reason = f"{each.bought} of {each.gang.nodes} machines in one block: {why}"
    return Abandon(gang=each.gang, nodes=each.names, reason=reason, began_at=each.began_at)


def _in_the_way_of(each: Group, groups: Sequence[Group]) -> Group | None:
    """Return an older stuck gang that may need the machines of this one, if this one is stuck too.

    Two gangs that start together may compete for one block with room for either. Unless one gives
    way, both wait in vain and start together again.
    """
    if not each.stuck:
        return None
    for elder in groups:
        if elder.gang == each.gang:
            return None
        apart = elder.blocks and each.blocks and not elder.blocks & each.blocks
        if elder.stuck and elder.gang.offering == each.gang.offering and not apart:
            return elder
    return None


def _is_seen(each: Group, surveyed: Collection[ProviderName]) -> bool:
    if each.gang.offering.provider not in surveyed:
        return True
    return all(node.topology is not None and node.topology.block for node in each.members)


def worth_keeping(pool: Pool, groups: Sequence[Group], *, now: datetime) -> list[Group]:
    """Return the gangs that count towards the pool's size.

    A gang that cannot get a member back because its block is full does not count, so that another
    is bought elsewhere; it is removed once that one serves.
    """
    sound = [each for each in groups if not each.crippled(pool.gang_hold, now)]
    if sum(each.gang.nodes for each in sound if each.serves) >= pool.target:
        return list(groups)
    return sound


def surplus_gangs(groups: Sequence[Group], nodes: int, busy: Mapping[NodeId, float]) -> list[Group]:
    """Return gangs of at most `nodes` nodes that a pool can spare, least loss first.

    Waiting gangs come first, then incomplete ones, then idle ones, then the oldest.
    """

    def loss(each: Group) -> tuple[int, bool, datetime, str]:
        works = any(busy.get(node.id, 100.0) >= BUSY_PCT for node in each.members)
        worth = 0 if each.waiting else 2 if each.serves else 1
        return worth, works, each.began_at, each.gang.id

    found = []
    for each in sorted(groups, key=loss):
        if each.gang.nodes <= nodes:
            found.append(each)
            nodes -= each.gang.nodes
    return found
