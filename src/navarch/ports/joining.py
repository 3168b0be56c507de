"""Letting machines in by the token they were given."""

from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId
from navarch.core.joining import Joiner


class Joins(Protocol):
    """Knows which machine each node has."""

    def recognize(self, shown: str) -> Joiner:
        """Return who shows that token, or raise UnauthenticatedError."""
        ...

    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has come; no other can be it from then on."""
        ...


@runtime_checkable
class JoinApi(Protocol):
    """What operators may ask about join tokens. Served in-process and over HTTP."""

    async def issue_join_token(self, node: NodeId, *, again: bool = False, reason: str = "") -> str:
        """Return the token with which the machine of a node joins.

        Raises NotPossibleError where none is expected: nobody has bought it, or one has joined
        already; `again` lets another machine take the place of that one.
        """
        ...
