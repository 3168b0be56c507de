"""Who has been heard of lately."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.ids import NodeId


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
