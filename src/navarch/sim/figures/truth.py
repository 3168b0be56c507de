"""The ground truth of a run: injected faults, leases and requested outages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

import msgspec

from navarch.core.health import Health
from navarch.core.ids import NodeId


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was injected into one machine."""

    node: NodeId
    at: datetime
    kind: str
    """The type of failure."""
    true_health: Health
    """The correct judgement of the machine; healthy if only a program on it failed."""
    xid: int | None = None
    gpu: int | None = None
    cause: str = "event"
    """event, chaos, cascade, correlation, outage or operator."""
    detail: str = ""
    cleared_at: datetime | None = None

    def active(self, at: datetime) -> bool:
        """Return whether the fault was present at a moment."""
        return self.at <= at and (self.cleared_at is None or at < self.cleared_at)


class RequestedOutage(msgspec.Struct, frozen=True, kw_only=True):
    """A period in which an operator or the owner of a machine keeps its node out of service."""

    at: datetime
    over: datetime | None = None

    def active(self, at: datetime) -> bool:
        """Return whether the request was in force at a moment."""
        return self.at <= at and (self.over is None or at < self.over)


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, from its start to its end, and its price."""

    node: NodeId
    gpus: int
    began: datetime
    ended: datetime | None
    price_per_hour: Decimal = Decimal(0)
    pool: str = ""
    """Empty for a machine that no pool bought."""
    token: str = ""
    """The token of the launch; empty for a machine that no pool bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """The facts against which the behaviour of the control plane is measured."""

    began: datetime
    ended: datetime
    faults: tuple[InjectedFault, ...] = ()
    leases: tuple[Lease, ...] = ()
    requested_outages: Mapping[NodeId, Sequence[RequestedOutage]] = field(default_factory=dict)
    """Nodes that an operator took out of service, or that lost a reclaimed machine."""
    replaced_by: Mapping[NodeId, NodeId] = field(default_factory=dict)
    """The new node for each one with a machine that its owner replaced."""
