"""The API for actions that automation holds back until an operator releases them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from navarch.core.disruption import Deferred
from navarch.core.ids import NodeId, PoolName
from navarch.core.recovery import Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node with an action that is held back."""

    node: NodeId
    pool: PoolName | None
    held: Deferred


@runtime_checkable
class HeldApi(Protocol):
    """The API for held actions, served in-process and over HTTP."""

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return every node with a held action, the longest held first."""

    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Release the held actions of some nodes, or of all nodes of a pool.

        A pool that stopped launching, because its machines did not come up, buys again.
        Raises NotPossibleError if nothing is held, or if the pool's remediation is a dry run.
        """

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the stored recoveries, newest first."""
