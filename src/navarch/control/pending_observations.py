"""What this process has seen of the clouds since it started. Never durable: it is seen again."""

from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.ids import NodeId, ProviderName, Token
from navarch.fleet.inventory_reconciliation import Seen


@dataclass(slots=True)
class PendingObservations:
    """Sightings and answers, shared by the reconcilers that deal with providers."""

    started_at: datetime
    """Calls made before this were made by another process, which is dead."""
    listed_at: dict[ProviderName, datetime] = field(default_factory=dict)
    """When the newest complete listing that has been acted on was begun."""
    unsure_since: dict[Token, datetime] = field(default_factory=dict)
    """Launches whose call may have had an effect, and when it was last made."""
    stopped_at: dict[NodeId, datetime] = field(default_factory=dict)
    """When the provider last agreed to end a node's machine."""
    seen: dict[ProviderName, Seen] = field(default_factory=dict)
    """What the listings have shown."""

    def listed_since(self, provider: ProviderName, moment: datetime) -> bool:
        """Return whether a listing begun at `moment` or later has been acted on."""
        listed_at = self.listed_at.get(provider)
        return listed_at is not None and listed_at >= moment

    def forget(self, node: NodeId, token: Token | None) -> None:
        """Drop what was kept about a node that is gone."""
        self.stopped_at.pop(node, None)
        if token is not None:
            self.unsure_since.pop(token, None)
