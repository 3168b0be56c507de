"""The whole fleet at one instant, and what may be changed about it."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import msgspec

from navarch.core.access_token import AccessToken
from navarch.core.alert import Alert, AlertGroup, AlertSilence
from navarch.core.event import Event
from navarch.core.ids import (
    AlertId,
    CommandId,
    IncidentId,
    InstanceId,
    JobName,
    NodeId,
    PoolName,
    RecoveryId,
    SilenceId,
    Token,
    TokenName,
)
from navarch.core.incident import Incident
from navarch.core.instance import Inventory
from navarch.core.job import Job
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.receipt import SigningKey
from navarch.core.records import Table, evolve
from navarch.core.recovery import Command, Recovery

NO_NODES: Table[NodeId, Node] = Table()

Move = tuple[Node | None, Node]
"""A node that was written: its state before, None for a new node, and its state now."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Records to write together with the events that explain them, all or none."""

    pools: Sequence[Pool] = ()
    nodes: Sequence[Node] = ()
    commands: Sequence[Command] = ()
    incidents: Sequence[Incident] = ()
    recoveries: Sequence[Recovery] = ()
    jobs: Sequence[Job] = ()
    alerts: Sequence[Alert] = ()
    alert_groups: Sequence[AlertGroup] = ()
    alert_silences: Sequence[AlertSilence] = ()
    access_tokens: Sequence[AccessToken] = ()
    signing_keys: Sequence[SigningKey] = ()
    """They are never deleted: what they have signed is verified for years."""
    forget_nodes: Sequence[NodeId] = ()
    forget_commands: Sequence[CommandId] = ()
    forget_incidents: Sequence[IncidentId] = ()
    forget_recoveries: Sequence[RecoveryId] = ()
    forget_jobs: Sequence[JobName] = ()
    forget_alerts: Sequence[AlertId] = ()
    forget_alert_groups: Sequence[str] = ()
    forget_alert_silences: Sequence[SilenceId] = ()
    forget_access_tokens: Sequence[TokenName] = ()
    launches: Sequence[Launch] = ()
    """Launches that are over, for the ledger; open launches are part of their node."""
    forget_launches: Sequence[tuple[Token, InstanceId | None]] = ()
    inventories: Mapping[NodeId, Inventory] = msgspec.field(default_factory=dict)
    events: Sequence[Event] = ()
    cursors: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The last revision of the journal that each reader has processed, by the reader's name."""
    guards: Sequence[PoolName] = ()
    """Pools in which this change has counted nodes. The change is refused if any of them has
    changed since, because the count may be wrong."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        written = [name for name in self.__struct_fields__ if name != "guards"]
        return not any(getattr(self, name) for name in written)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the fleet.

    `name` is the field of `Fleet` and of `Change` that holds its records, and its table in a
    database; `key` is the field that identifies a record. Stores, conflict check and database
    format derive from `Fleet.kinds`, so a further table needs a line there and its typed fields.
    """

    name: str
    key: str
    type: type[Any]
    since: int
    """The database format that introduced the table: one more than the newest for a new table."""
    exclusive: str | None = None
    """A field besides the key that identifies a conflict: concurrent changes that write records
    with the same value of it conflict."""

    @property
    def deletions(self) -> str:
        """The field of `Change` that holds the keys to delete. Pools, which stay, have none."""
        return f"forget_{self.name}"

    def written(self, change: Change) -> dict[str, Any]:
        """Return the records that `change` writes by key, and None for each that it deletes."""
        records = getattr(change, self.name)
        deleted = getattr(change, self.deletions, ())
        return {getattr(record, self.key): record for record in records} | dict.fromkeys(deleted)

    def claims(self, change: Change) -> Iterator[str]:
        """Yield a name for everything that no concurrent change may write."""
        noun = self.type.__name__.lower()
        for key, record in self.written(change).items():
            yield f"{noun} {key}"
            if self.exclusive is not None and record is not None:
                yield f"{self.name} of {getattr(record, self.exclusive)}"


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable view of every pool, node and command, at one store revision."""

    kinds: ClassVar[Sequence[Kind]] = (
        Kind(name="pools", key="name", type=Pool, since=1),
        Kind(name="nodes", key="id", type=Node, since=1),
        Kind(name="commands", key="id", type=Command, since=1),
        # Two reports must not each open an incident for the same symptoms.
        Kind(name="incidents", key="id", type=Incident, since=3, exclusive="place"),
        Kind(name="recoveries", key="id", type=Recovery, since=4),
        Kind(name="jobs", key="name", type=Job, since=5),
        Kind(name="alerts", key="id", type=Alert, since=6),
        Kind(name="alert_groups", key="id", type=AlertGroup, since=6),
        Kind(name="alert_silences", key="id", type=AlertSilence, since=6),
        Kind(name="access_tokens", key="name", type=AccessToken, since=7),
        # Two uploads must not each make the next key.
        Kind(name="signing_keys", key="id", type=SigningKey, since=8, exclusive="number"),
    )

    revision: int = 0
    pools: Table[PoolName, Pool] = msgspec.field(default_factory=Table)
    nodes: Table[NodeId, Node] = msgspec.field(default_factory=Table)
    commands: Table[CommandId, Command] = msgspec.field(default_factory=Table)
    incidents: Table[IncidentId, Incident] = msgspec.field(default_factory=Table)
    recoveries: Table[RecoveryId, Recovery] = msgspec.field(default_factory=Table)
    jobs: Table[JobName, Job] = msgspec.field(default_factory=Table)
    alerts: Table[AlertId, Alert] = msgspec.field(default_factory=Table)
    alert_groups: Table[str, AlertGroup] = msgspec.field(default_factory=Table)
    alert_silences: Table[SilenceId, AlertSilence] = msgspec.field(default_factory=Table)
    access_tokens: Table[TokenName, AccessToken] = msgspec.field(default_factory=Table)
    signing_keys: Table[str, SigningKey] = msgspec.field(default_factory=Table)
    by_pool: Mapping[PoolName, Table[NodeId, Node]] = msgspec.field(default_factory=dict)
    hosts: Mapping[PoolName, Table[NodeId, Node]] = msgspec.field(default_factory=dict)
    """The self-registered nodes by the pool that they serve, whether it exists or not."""

    def in_pool(self, pool: PoolName) -> Table[NodeId, Node]:
        """Return the pool's nodes, in the order in which they were requested."""
        return self.by_pool.get(pool, NO_NODES)

    def hosts_of(self, name: PoolName) -> Sequence[Node]:
        """Return the self-registered nodes that count towards the size of a pool.

        A host that is silent or unhealthy counts until it is forgotten: an outage must not buy
        a second machine for each.
        """
        pool = self.pools.get(name)
        if pool is None or pool.deleted:
            return ()
        return [node for node in self.hosts.get(name, NO_NODES).values() if node.counts]

    def present_in(self, pool: PoolName) -> int:
        """Return how many of the pool's nodes are not gone."""
        return sum(not node.gone for node in self.in_pool(pool).values())

    def with_records(
        self, revision: int, written: Mapping[str, Mapping[str, Any | None]]
    ) -> "Fleet":
        """Return the fleet at `revision`, with records written by table and key; None deletes."""
        tables = {
            name: getattr(self, name).with_changes(records)
            for name, records in written.items()
            if records
        }
        members: dict[PoolName, dict[NodeId, Node | None]] = {}
        hosts: dict[PoolName, dict[NodeId, Node | None]] = {}
        for name, node in written.get("nodes", {}).items():
            before = self.nodes.get(NodeId(name))
            if before is not None and before.host_of is not None:
                hosts.setdefault(before.host_of, {})[NodeId(name)] = None
            if node is not None and node.host_of is not None:
                hosts.setdefault(node.host_of, {})[NodeId(name)] = node
            if before is not None and before.pool is not None:
                changed = node is not None and node.pool not in (None, before.pool)
                assert not changed, f"{name} changed pool"
                members.setdefault(before.pool, {})[NodeId(name)] = None
            if node is not None and node.pool is not None:
                members.setdefault(node.pool, {})[NodeId(name)] = node
        if members:
            grouped = {pool: self.in_pool(pool).with_changes(x) for pool, x in members.items()}
            tables["by_pool"] = {**self.by_pool, **grouped}
        if hosts:
            serving = {x: self.hosts.get(x, NO_NODES).with_changes(y) for x, y in hosts.items()}
            tables["hosts"] = {**self.hosts, **serving}
        return evolve(self, revision=revision, **tables)


@cache
def _fields(fleet: type[Fleet]) -> list[tuple[Kind, str, str]]:
    """Return the tables of a kind of fleet with their fields of `Change`: commits look them up."""
    return [(kind, kind.name, kind.deletions) for kind in fleet.kinds]


def kinds_written(fleet: Fleet, change: Change) -> list[Kind]:
    """Return the tables that `change` writes or deletes records of: one, for most changes."""
    return [
        kind
        for kind, written, deleted in _fields(type(fleet))
        if getattr(change, written) or getattr(change, deleted, ())
    ]


def apply(fleet: Fleet, change: Change) -> Fleet:
    """Return `fleet` with `change` written into it, one revision later."""
    written = {kind.name: kind.written(change) for kind in kinds_written(fleet, change)}
    return fleet.with_records(fleet.revision + 1, written)


def moved(fleet: Fleet, change: Change) -> Sequence[Move]:
    """Return each node that `change` writes and does not forget, with its state before."""
    if not change.nodes:
        return ()
    written = {node.id: node for node in change.nodes}
    for name in change.forget_nodes:
        written.pop(name, None)
    return tuple([(fleet.nodes.get(name), node) for name, node in written.items()])


def forgotten(fleet: Fleet, change: Change) -> Sequence[Node]:
    """Return each node of `fleet` that `change` forgets."""
    if not change.forget_nodes:
        return ()
    known = [fleet.nodes.get(name) for name in dict.fromkeys(change.forget_nodes)]
    return tuple([node for node in known if node is not None])


def pools_touched(fleet: Fleet, change: Change) -> list[PoolName]:
    """Return the pools that `change` alters, directly or by their nodes, each once."""
    touched: dict[PoolName, None] = {pool.name: None for pool in change.pools}
    for node in (*change.nodes, *forgotten(fleet, change)):
        # A node that is released leaves its pool.
        for each in (node, fleet.nodes.get(node.id)):
            if each is not None and each.pool is not None:
                touched[each.pool] = None
    return list(touched)
