"""The port through which controllers learn which nodes still send heartbeats."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.ids import NodeId

Sooner = Callable[[datetime], None]
"""Called with an earlier time than expected at which a result may change."""


class Liveness(Protocol):
    """The heartbeats of all nodes, as a summary: callers never see single heartbeats."""

    @property
    def timeout(self) -> timedelta:
        """How long after its last heartbeat a node is overdue."""

    def silent_since(self, node: NodeId) -> datetime | None:
        """Return the time of the last heartbeat of `node`, if it is overdue; else None."""

    def silent(self) -> Mapping[NodeId, datetime]:
        """Return every overdue node with the time of its last heartbeat."""

    def next_change(self) -> datetime | None:
        """Return when the next node becomes overdue unless heartbeats arrive; None for never."""

    def overdue_from(self) -> datetime | None:
        """Return when the first node becomes overdue unless heartbeats arrive, or has become so."""

    def has_reported(self, node: NodeId) -> bool:
        """Return whether `node` has sent a heartbeat since this process started.

        Heartbeats before that prove nothing about the node, in either direction.
        """

    def subscribe(self, listener: Sooner) -> None:
        """Call `listener` when a result may change sooner than `next_change` returned.

        That is after the first heartbeat of a node, or the first one after silence.
        """
