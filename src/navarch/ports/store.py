"""The port through which the fleet is read and written."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet, Move
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Inventory
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool

PRUNED_AT_ONCE = 200
"""How many events are dropped in one piece: commits wait a few milliseconds for it."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """One change, with the states around it."""

    before: Fleet
    after: Fleet
    change: Change
    moved: Sequence[Move]
    """The nodes that the change wrote, each with its state before."""
    forgotten: Sequence[Node]
    """The nodes that the change deleted, in their last state."""
    reshaped: Sequence[Pool]
    """The pools that the change wrote, except where only the node counter has changed."""


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """A server that uses a database, and answers requests at its ports."""

    id: str
    http: str
    """The address at which other replicas reach it over HTTP, such as `10.0.0.7:50051`."""
    grpc: str
    version: str
    started: datetime
    revision: int = 0
    """The newest revision that it has."""
    term: int | None = None
    """The term in which it leads; None if it does not."""
    certificate: str = ""
    """Its certificate in PEM form, if it serves over TLS."""
    silent_s: float = 0.0
    """How long ago it reported, by the clock of the database."""


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """What a database holds about the servers that use it."""

    term: int
    obstacle: str = ""
    """Why this version cannot lead, if it cannot: the database has a format that it cannot read."""
    replicas: Sequence[Replica]

    @property
    def leader(self) -> Replica | None:
        """The replica that began the present term, once it has reported that it leads."""
        return next((x for x in self.replicas if x.term == self.term), None)


class ReplicaTable(Protocol):
    """Where replicas report. Blocking: for one thread."""

    def local_host(self) -> str:
        """Return the address of this machine on the way to the database."""

    def secret(self) -> bytes | None:
        """Return the secret of the cluster, None before there is a fleet."""

    def round(self, own: Replica) -> ReplicaView | None:
        """Wait a moment for news, report `own`, and return the view; None before there is a fleet.

        Raises StoreError if the database does not answer.
        """

    def leave(self, own: Replica) -> None:
        """Remove this replica, and end the session."""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is, and how large."""

    kind: str
    """SQLite, PostgreSQL or memory."""
    place: str = ""
    """The file, or the address of the database without its password."""
    bytes: int = 0
    standbys: Sequence[int] = ()
    """The servers on standby that follow it: how many revisions each is behind."""
    replicas: Sequence[Replica] = ()
    """The servers that answer requests, the leader included."""


class Store(Protocol):
    """Snapshots out, whole changes in, optimistic concurrency between."""

    @property
    def cluster(self) -> Cluster:
        """The identity under which machines are bought: as durable as the fleet itself."""

    @property
    def term(self) -> int:
        """The number of times this state was opened, this time included.

        Opening a store begins a term. A store of an older term can no longer write: every write
        checks, in the same transaction, that its term is the newest.
        """

    def fleet(self) -> Fleet:
        """Return the fleet as it was last committed. Cheap; an immutable value."""

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` durably and return the fleet after it.

        Raises ConflictError, and writes nothing, if anything that the change writes, or
        any pool that it guards, was changed after revision `based_on`; SupersededError, and
        writes nothing, if a later term has begun. An error that a listener raises is raised here
        too: the change is durable by then.
        """

    async def info(self) -> StoreInfo:
        """Return what this store is, and its size now."""

    async def confirm(self) -> None:
        """Return if this process led a moment ago, and may have an effect on the world.

        Raises SupersededError if a later term has begun, StoreError if that cannot be found out. A
        process that was paused has lost the right to carry out what it had decided.
        """

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit, in order; return what ends the subscription."""

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return entries of the journal: the oldest in order, or the newest in reverse.

        Numbers follow `after` and precede `before`; revisions follow `after_revision`.
        """

    def cursor(self, reader: str) -> int | None:
        """Return the cursor of `reader` in the journal, if it has one."""

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""

    async def prune(self, before: datetime, *, limit: int = PRUNED_AT_ONCE) -> bool:
        """Drop a piece of the journal that is older than `before`; return whether more may be left.

        It drops whole revisions from the beginning of the journal, up to the first that has a newer
        event: about `limit` events, and at least one revision.
        """

    async def shrink(self) -> bool:
        """Give a piece of the space that pruning freed back; return whether more is left."""

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over, in the order in which they were requested.

        With `limit`, one page: at most that many, beginning after `after`, the last launch of the
        page before.
        """

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory that the agent of `node` reported."""

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of some nodes in one read, without those that reported none."""


class DurableStore(Store, Protocol):
    """A store that a server leads until it closes it."""

    hold_every: timedelta | None
    """How often `hold` must be called; None if nothing can take the leadership away."""

    async def hold(self) -> None:
        """Keep the leadership.

        Raises SupersededError if another process leads, StoreError if that cannot be found out.
        """

    async def check_writable(self) -> None:
        """Write something and wait for the disk; raise StoreError if that fails."""

    def close(self) -> None:
        """Release the leadership."""


class StandbyStore(Protocol):
    """A store that another process leads."""

    @property
    def revision(self) -> int:
        """The newest revision that it has followed."""

    async def take_over(self) -> DurableStore | None:
        """Wait a moment; return the store if this process leads it now.

        Raises StoreAwayError if its database cannot be reached.
        """

    def close(self) -> None:
        """Stop waiting."""
