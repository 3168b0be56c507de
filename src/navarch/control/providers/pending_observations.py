"""What this process has observed of the clouds since it started. It is not durable."""

from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.ids import NodeId, ProviderName, Token
from navarch.fleet.inventory_reconciliation import Seen


@dataclass(slots=True)
class PendingObservations:
    """Observations and answers, shared by the controllers that call providers."""

    started_at: datetime
    """Calls before this time were made by an earlier process."""
    listed_at: dict[ProviderName, datetime] = field(default_factory=dict)
    """When the newest complete listing that was acted on began."""
    unsure_since: dict[Token, datetime] = field(default_factory=dict)
    """Launches that may have had an effect, with the time of the last call."""
    stopped_at: dict[NodeId, datetime] = field(default_factory=dict)
    """When the provider first accepted to end a node's machine."""
    seen: dict[ProviderName, Seen] = field(default_factory=dict)
    """What the listings have shown."""

    def forget(self, node: NodeId, token: Token | None) -> None:
        """Drop what is kept about a node that is gone."""
        self.stopped_at.pop(node, None)
        if token is not None:
            self.unsure_since.pop(token, None)
