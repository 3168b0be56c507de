"""The use cases every front door offers, served in-process or over the wire."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.command import Command, CommandKind
from navarch.core.event import Subject
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The chain of reasons behind the state of one thing, newest first."""

    about: Subject
    state: str
    steps: tuple["Step", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened, and what was behind it."""

    number: int
    at: datetime
    kind: str
    reason: str
    because: tuple[Why, ...] = ()


class FleetApi(Protocol):
    """What operators, the CLI, the MCP server and the dashboard are written against."""

    def pools(self) -> Sequence[Pool]:
        """Return every pool, by name."""
        ...

    def nodes(self, pool: PoolName | None = None) -> Sequence[Node]:
        """Return every node, or those of one pool, in the order of their creation."""
        ...

    def node(self, name: NodeId) -> Node:
        """Return one node, or raise NotFoundError."""
        ...

    async def put_pool(self, pool: Pool, *, reason: str) -> Pool:
        """Create a pool, or change the one of that name; its counter and size are kept."""
        ...

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> Pool:
        """Ask for a size within the pool's bounds."""
        ...

    async def delete_pool(self, pool: PoolName, *, reason: str) -> None:
        """Drain and give back every node of a pool, then the pool."""
        ...

    async def cordon(self, node: NodeId, *, reason: str) -> Node:
        """Keep new work off a node; a drain that was asked for by hand is called off."""
        ...

    async def uncordon(self, node: NodeId) -> Node:
        """Lift a cordon, and nothing else."""
        ...

    async def drain(self, node: NodeId, *, reason: str) -> Node:
        """Move the work off a node, which stays."""
        ...

    async def retire(self, node: NodeId, *, reason: str) -> Node:
        """Drain a node and give its machine back; its pool will replace it."""
        ...

    async def declare_healthy(self, node: NodeId, *, reason: str) -> Node:
        """Override what the checks say about a node."""
        ...

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: dict[str, str] | None = None
    ) -> Command:
        """Ask a node's agent to do something."""
        ...

    async def why(self, about: Subject) -> Why:
        """Return the reasons behind the state of a node, a pool or a launch."""
        ...
