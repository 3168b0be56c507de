"""The API for the health of a fleet, and for failure statistics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId, PoolName, ProviderName


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealth:
    """Counts of one pool."""

    pool: PoolName | None
    """None for machines that Navarch did not buy."""
    nodes: int = 0
    by_health: Mapping[str, int] = field(default_factory=dict)
    incidents: int = 0
    """The number of open incidents."""
    held: int = 0
    recovering: int = 0
    replacing: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LemonView:
    """A machine, or one GPU or slot of it, that fails more often than the rest."""

    node: NodeId
    gpu: str
    score: float
    """Its failure rate as a multiple of the fleet's."""
    strikes: int
    is_lemon: bool
    causes: tuple[str, ...] = ()
    slot: str = ""
    """The PCI address, if known."""
    host: str = ""
    """The physical machine, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWarning:
    """A GPU that works but wears out, or slows down the other GPUs of its job."""

    node: NodeId
    gpu: str
    kind: str
    """`wear` or `straggler`."""
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """The failure rate of one type of machine of one provider."""

    provider: ProviderName
    instance_type: str
    failures: int
    node_days: float
    per_1000_node_days: float
    low: float
    high: float | None
    """None if there is too little data for an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHealth:
    """The output of `navarch health`."""

    now: datetime
    pools: tuple[PoolHealth, ...] = ()
    lemons: tuple[LemonView, ...] = ()
    warnings: tuple[GpuWarning, ...] = ()
    rates: tuple[FailureRate, ...] = ()
    window_days: int = 30
    """The period that lemons and rates cover."""


@runtime_checkable
class FleetHealthApi(Protocol):
    """The API for the health of a fleet, served in-process and over HTTP."""

    async def fleet_health(self) -> FleetHealth:
        """Return the health of the fleet."""
