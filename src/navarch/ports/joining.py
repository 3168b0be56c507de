"""The ports for join tokens, with which machines authenticate once."""

from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId
from navarch.core.ownership import Joiner


class Joins(Protocol):
    """Binds machines to nodes."""

    def recognize(self, shown: str) -> Joiner:
        """Return the node and launch of a join token, or raise UnauthenticatedError."""

    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has joined; no other machine can join as it."""


@runtime_checkable
class JoinApi(Protocol):
    """The API for join tokens, served in-process and over HTTP."""

    async def issue_join_token(self, node: NodeId, *, again: bool = False, reason: str = "") -> str:
        """Return the token with which the machine of a node joins.

        Raises NotPossibleError if no machine is expected: none was bought, or one has joined
        already; with `again`, another machine may replace that one.
        """
