"""The whole fleet at one instant, and what may be changed about it."""

from collections.abc import Mapping, Sequence

import msgspec

from navarch.core.command import Command
from navarch.core.event import Event
from navarch.core.evolve import evolve
from navarch.core.ids import CommandId, IncidentId, JobName, NodeId, PoolName, RecoveryId
from navarch.core.incident import Incident
from navarch.core.inventory import Inventory
from navarch.core.job import Job
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.core.table import Table

NO_NODES: Table[NodeId, Node] = Table()

Move = tuple[Node | None, Node]
"""A node that was written: as it was before, if it was there, and as it is."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable view of every pool, node and command, at one store revision."""

    revision: int = 0
    pools: Table[PoolName, Pool] = msgspec.field(default_factory=Table)
    nodes: Table[NodeId, Node] = msgspec.field(default_factory=Table)
    commands: Table[CommandId, Command] = msgspec.field(default_factory=Table)
    incidents: Table[IncidentId, Incident] = msgspec.field(default_factory=Table)
    recoveries: Table[RecoveryId, Recovery] = msgspec.field(default_factory=Table)
    jobs: Table[JobName, Job] = msgspec.field(default_factory=Table)
    by_pool: Mapping[PoolName, Table[NodeId, Node]] = msgspec.field(default_factory=dict)
    present: Mapping[PoolName, int] = msgspec.field(default_factory=dict)
    """How many nodes of each pool are not gone, where that has been counted."""

    def in_pool(self, pool: PoolName) -> Table[NodeId, Node]:
        """Return the pool's nodes, in the order in which they were requested."""
        return self.by_pool.get(pool, NO_NODES)

    def present_in(self, pool: PoolName) -> int:
        """Return how many of the pool's nodes are not gone."""
        counted = self.present.get(pool)
        if counted is None:
            return sum(not node.gone for node in self.in_pool(pool).values())
        return counted


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Records to write together with the events that explain them, all or none."""

    pools: Sequence[Pool] = ()
    nodes: Sequence[Node] = ()
    commands: Sequence[Command] = ()
    incidents: Sequence[Incident] = ()
    recoveries: Sequence[Recovery] = ()
    jobs: Sequence[Job] = ()
    launches: Sequence[Launch] = ()
    """Launches that are over, for the ledger; those under way travel with their node."""
    inventories: Mapping[NodeId, Inventory] = msgspec.field(default_factory=dict)
    forget_nodes: Sequence[NodeId] = ()
    forget_commands: Sequence[CommandId] = ()
    forget_incidents: Sequence[IncidentId] = ()
    forget_recoveries: Sequence[RecoveryId] = ()
    forget_jobs: Sequence[JobName] = ()
    events: Sequence[Event] = ()
    bookmarks: Mapping[str, int] = msgspec.field(default_factory=dict)
    """How far into the journal somebody has read, by their name."""
    guards: Sequence[PoolName] = ()
    """Pools whose nodes this change has counted: if any of them has changed since, the count
    may be wrong, and so the change is refused."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (
            self.pools
            or self.nodes
            or self.commands
            or self.incidents
            or self.recoveries
            or self.jobs
            or self.launches
            or self.inventories
            or self.forget_nodes
            or self.forget_commands
            or self.forget_incidents
            or self.forget_recoveries
            or self.forget_jobs
            or self.events
            or self.bookmarks
        )


def moved(fleet: Fleet, change: Change) -> Sequence[Move]:
    """Return each node that `change` writes and does not forget, with what it was before."""
    nodes = change.nodes
    if not nodes:
        return ()
    known = fleet.nodes
    if len(nodes) == 1 and not change.forget_nodes:
        return ((known.get(nodes[0].id), nodes[0]),)
    written = {node.id: node for node in nodes}
    for name in change.forget_nodes:
        written.pop(name, None)
    return tuple([(known.get(name), node) for name, node in written.items()])


def forgotten(fleet: Fleet, change: Change) -> Sequence[Node]:
    """Return each node of `fleet` that `change` forgets."""
    if not change.forget_nodes:
        return ()
    known = [fleet.nodes.get(name) for name in dict.fromkeys(change.forget_nodes)]
    return tuple([node for node in known if node is not None])


def apply(
    fleet: Fleet,
    change: Change,
    moves: Sequence[Move] | None = None,
    gone: Sequence[Node] | None = None,
) -> Fleet:
    """Return `fleet` with `change` written into it, one revision later.

    Who has found out already which nodes it has `moved` and `forgotten` hands them in.
    """
    # Tables that stay as they are are shared, which is most of them most of the time.
    if change.nodes or change.forget_nodes:
        moves = moved(fleet, change) if moves is None else moves
        gone = forgotten(fleet, change) if gone is None else gone
        only_one = len(moves) == 1 and not gone
        after = _with_one(fleet, *moves[0]) if only_one else _with_moves(fleet, moves, gone)
    else:
        after = evolve(fleet, revision=fleet.revision + 1)
    if change.pools:
        pools = fleet.pools.with_changes({pool.name: pool for pool in change.pools})
        after = evolve(after, pools=pools)
    if change.commands or change.forget_commands:
        commands = fleet.commands.with_changes(
            {**{each.id: each for each in change.commands}, **dict.fromkeys(change.forget_commands)}
        )
        after = evolve(after, commands=commands)
    if change.incidents or change.forget_incidents:
        incidents = fleet.incidents.with_changes(
            {
                **{each.id: each for each in change.incidents},
                **dict.fromkeys(change.forget_incidents),
            }
        )
        after = evolve(after, incidents=incidents)
    if change.recoveries or change.forget_recoveries:
        recoveries = fleet.recoveries.with_changes(
            {
                **{each.id: each for each in change.recoveries},
                **dict.fromkeys(change.forget_recoveries),
            }
        )
        after = evolve(after, recoveries=recoveries)
    if change.jobs or change.forget_jobs:
        jobs = fleet.jobs.with_changes(
            {**{job.name: job for job in change.jobs}, **dict.fromkeys(change.forget_jobs)}
        )
        after = evolve(after, jobs=jobs)
    return after


def pools_touched(fleet: Fleet, change: Change) -> list[PoolName]:
    """Return the pools that `change` alters, or whose nodes it alters, each once."""
    touched: dict[PoolName, None] = {}
    for pool in change.pools:
        touched[pool.name] = None
    for node in change.nodes:
        if node.pool is not None:
            touched[node.pool] = None
    for name in change.forget_nodes:
        before = fleet.nodes.get(name)
        if before is not None and before.pool is not None:
            touched[before.pool] = None
    return list(touched)


_ByPool = Mapping[PoolName, Table[NodeId, Node]]
_Present = Mapping[PoolName, int]


def _with_moves(fleet: Fleet, moves: Sequence[Move], gone: Sequence[Node]) -> Fleet:
    """Return `fleet` one revision later, after some nodes moved and others are forgotten."""
    written: dict[NodeId, Node | None] = {node.id: node for _, node in moves}
    for node in gone:
        written[node.id] = None
    by_pool, present = _regroup(fleet, moves, gone)
    return evolve(
        fleet,
        revision=fleet.revision + 1,
        nodes=fleet.nodes.with_changes(written),
        by_pool=by_pool,
        present=present,
    )


def _regroup(fleet: Fleet, moves: Sequence[Move], gone: Sequence[Node]) -> tuple[_ByPool, _Present]:
    """Return the nodes of each pool, and how many of them are not gone, after some moved."""
    written: dict[PoolName, dict[NodeId, Node | None]] = {}
    more: dict[PoolName, int] = {}
    for before, node in moves:
        pool = node.pool
        assert before is None or before.pool == pool, f"{node.id} changed pool"
        if pool is None:
            continue
        if pool not in written:
            written[pool] = {}
        written[pool][node.id] = node
        was_here = before is not None and not before.gone
        if was_here is node.gone:
            more[pool] = more.get(pool, 0) + (-1 if was_here else 1)
    for node in gone:
        if node.pool is not None:
            written.setdefault(node.pool, {})[node.id] = None
            if not node.gone:
                more[node.pool] = more.get(node.pool, 0) - 1
    if not written:
        return fleet.by_pool, fleet.present
    grouped = dict(fleet.by_pool)
    for pool, changes in written.items():
        grouped[pool] = grouped.get(pool, NO_NODES).with_changes(changes)
    if not more:
        return grouped, fleet.present
    present = dict(fleet.present)
    for pool, difference in more.items():
        present[pool] = fleet.present_in(pool) + difference
    return grouped, present


def _with_one(fleet: Fleet, before: Node | None, node: Node) -> Fleet:
    """Return `fleet` one revision later, after one node moved, as it is with most commits."""
    pool, by_pool, revision = node.pool, fleet.by_pool, fleet.revision + 1
    assert before is None or before.pool == pool, f"{node.id} changed pool"
    written: dict[NodeId, Node | None] = {node.id: node}
    nodes = fleet.nodes.with_changes(written)
    if pool is None:
        return evolve(fleet, revision=revision, nodes=nodes)
    here = by_pool.get(pool, NO_NODES).with_changes(written)
    by_pool = {**by_pool, pool: here}
    was_here = before is not None and not before.gone
    is_here = not node.gone
    if was_here is is_here:
        return evolve(fleet, revision=revision, nodes=nodes, by_pool=by_pool)
    present = {**fleet.present, pool: fleet.present_in(pool) + is_here - was_here}
    return evolve(fleet, revision=revision, nodes=nodes, by_pool=by_pool, present=present)
