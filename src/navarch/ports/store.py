"""Where the fleet is remembered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.inventory import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """One change, with the states around it."""

    before: Fleet
    after: Fleet
    change: Change


class Store(Protocol):
    """Snapshots out, whole changes in, optimistic concurrency between."""

    @property
    def cluster(self) -> Cluster:
        """The identity under which machines are bought: as durable as the fleet itself."""
        ...

    def fleet(self) -> Fleet:
        """Return the fleet as it was last committed. Cheap; an immutable value."""
        ...

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` durably and return the fleet after it.

        Raises ConflictError, and writes nothing, if anything that the change writes, or
        any pool that it guards, was changed after revision `based_on`.
        """
        ...

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit, in order; return what ends the subscription."""
        ...

    async def events(
        self, *, after: int = 0, about: Subject | None = None, limit: int = 1000
    ) -> Sequence[Recorded]:
        """Return the journal after event number `after`, oldest first."""
        ...

    async def launches(self, *, pool: PoolName | None = None) -> Sequence[Launch]:
        """Return the launches that are over, in the order in which they were asked for."""
        ...

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found on its machine."""
        ...
