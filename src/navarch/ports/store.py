"""Where the fleet is remembered."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet, Move
from navarch.core.ids import NodeId, PoolName
from navarch.core.inventory import Inventory
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """One change, with the states around it."""

    before: Fleet
    after: Fleet
    change: Change
    moved: Sequence[Move]
    """The nodes that it wrote, each with what it was before: looked up once, for all who hear."""
    forgotten: Sequence[Node]
    """The nodes that it forgot, as they were."""
    reshaped: Sequence[Pool]
    """The pools that it wrote, but for those that have only counted on."""


class Matter(StrEnum):
    """What a commit can be about, besides nodes in some phase of their lives."""

    LAUNCHES = "launches"
    """A node is new, or its launch is another than before; or it was gone."""
    GANGS = "gangs"
    """A node is written that belongs to a gang."""
    RECOVERIES = "recoveries"
    """A recovery is written, or a node that is being mended."""
    INCIDENTS = "incidents"
    """An incident is written or forgotten."""
    COMMANDS = "commands"
    """A command is written."""
    LEDGER = "ledger"
    """A launch is over, and written into the ledger."""
    FORGOTTEN = "forgotten"
    """A node is forgotten."""


Topic = Phase | Matter
"""A phase stands for the nodes that are written and are in it from then on."""


class Store(Protocol):
    """Snapshots out, whole changes in, optimistic concurrency between."""

    @property
    def cluster(self) -> Cluster:
        """The identity under which machines are bought: as durable as the fleet itself."""
        ...

    @property
    def term(self) -> int:
        """How many have led with this state, this one included.

        Whoever opens a store begins a term. A store of an older term writes nothing any more:
        every write checks, together with what it writes, that its term is the newest.
        """
        ...

    def fleet(self) -> Fleet:
        """Return the fleet as it was last committed. Cheap; an immutable value."""
        ...

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` durably and return the fleet after it.

        Raises ConflictError, and writes nothing, if anything that the change writes, or
        any pool that it guards, was changed after revision `based_on`; SupersededError, and
        writes nothing, if another has begun a term.
        """
        ...

    def subscribe(
        self, listener: Callable[[Committed], None], *, about: Collection[Topic] | None = None
    ) -> Callable[[], None]:
        """Call `listener` after each commit, in order; return what ends the subscription.

        With `about`, only after those that are about one of these topics at least.
        """
        ...

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        about: Subject | None = None,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return the journal after an event number and after a revision, oldest first."""
        ...

    def bookmark(self, reader: str) -> int | None:
        """Return how far into the journal `reader` has read, if it has begun."""
        ...

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        ...

    async def prune(self, before: datetime) -> None:
        """Drop the part of the journal that is older than `before`."""
        ...

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over, in the order in which they were asked for.

        With `limit` at most so many, beginning behind `after`, the last one of the page before.
        """
        ...

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found on its machine."""
        ...
