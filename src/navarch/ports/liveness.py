"""Who has been heard of lately."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.ids import NodeId

Sooner = Callable[[datetime], None]
"""Hears of a moment at which an answer may change that was not expected to change then."""


class Liveness(Protocol):
    """Answers for heartbeats, so that nobody needs to see each one of them."""

    @property
    def timeout(self) -> timedelta:
        """How long a node may go unheard before it is overdue."""
        ...

    def silent_since(self, node: NodeId) -> datetime | None:
        """Return when `node` was last heard of, if it is overdue; None while it is not."""
        ...

    def silent(self) -> Mapping[NodeId, datetime]:
        """Return every overdue node with the time it was last heard of."""
        ...

    def next_change(self) -> datetime | None:
        """Return when an answer will next change if nothing more is heard; None for never."""
        ...

    def overdue_from(self) -> datetime | None:
        """Return when the first node is overdue if nothing more is heard, or since when one is."""
        ...

    def has_spoken(self, node: NodeId) -> bool:
        """Return whether `node` was heard of since this process began to listen.

        Nobody is blamed for what was not heard before, and nobody is praised for it.
        """
        ...

    def subscribe(self, listener: Sooner) -> None:
        """Call `listener` when an answer may change sooner than `next_change` has said.

        Somebody is heard of for the first time, or again after having been silent.
        """
        ...
