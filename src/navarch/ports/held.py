"""What automation was kept from doing, and how people let it go ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from navarch.core.held import Held
from navarch.core.ids import NodeId, PoolName
from navarch.core.recovery import Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """One node about which something would have been done."""

    node: NodeId
    pool: PoolName | None
    held: Held


@runtime_checkable
class HeldApi(Protocol):
    """What operators may ask about automation. Served in-process and over HTTP."""

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return every node about which something is held back, longest first."""
        ...

    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Let automation go ahead with some nodes, or with all that wait in a pool.

        A pool that has stopped buying, because its machines did not come up, buys again.
        Raises NotPossibleError where nothing waits, or where the pool's remediation is a dry run.
        """
        ...

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the attempts to mend machines that are remembered, newest first."""
        ...
