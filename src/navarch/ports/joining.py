"""Letting machines in by the token they were given."""

from typing import Protocol

from navarch.core.joining import Joiner


class Joins(Protocol):
    """Knows which machine each node has."""

    def recognize(self, shown: str) -> Joiner:
        """Return who shows that token, or raise UnauthenticatedError."""
        ...

    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has come; no other can be it from then on."""
        ...
