"""What really happened, as only the world knows: what was broken, what was paid, who asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from navarch.core.health import Health
from navarch.core.ids import NodeId


class Injury(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that broke on one machine."""

    node: NodeId
    at: datetime
    kind: str
    """The type of failure."""
    harm: Health
    """What a sound judge would say of the machine: healthy for what only hurt the program on it."""
    xid: int | None = None
    gpu: int | None = None
    cause: str = "event"
    """event, chaos, cascade, correlation, outage or operator."""
    detail: str = ""
    over: datetime | None = None
    """When it passed, or was mended."""

    def holds(self, at: datetime) -> bool:
        """Return whether the machine was broken at that moment."""
        return self.at <= at and (self.over is None or at < self.over)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wanted a node out of service, until they took that back."""

    at: datetime
    over: datetime | None = None

    def holds(self, at: datetime) -> bool:
        """Return whether it was in force at that moment."""
        return self.at <= at and (self.over is None or at < self.over)


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One machine for as long as it existed, with whoever pays for it."""

    node: NodeId
    gpus: int
    began: datetime
    ended: datetime | None
    price_per_hour: Decimal = Decimal(0)
    pool: str = ""
    """Empty for a machine that nobody here bought."""
    token: str = ""
    """The purchase; empty for a machine that nobody here bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """All that is needed to judge what the system did."""

    began: datetime
    ended: datetime
    injuries: tuple[Injury, ...] = ()
    leases: tuple[Lease, ...] = ()
    asked_out: Mapping[NodeId, Sequence[Order]] = field(default_factory=dict)
    """Nodes that an operator took out of service, or whose machines somebody took away."""
    exchanged: Mapping[NodeId, NodeId] = field(default_factory=dict)
    """Machines that their owner exchanged, by the ones they replaced."""
