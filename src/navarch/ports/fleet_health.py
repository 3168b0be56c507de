"""How a whole fleet is, and what its past says about its machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId, PoolName, ProviderName


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealth:
    """One pool in numbers."""

    pool: PoolName | None
    """None for machines that nobody here bought."""
    nodes: int = 0
    by_health: Mapping[str, int] = field(default_factory=dict)
    incidents: int = 0
    """Open ones."""
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
    """How many times the fleet's rate."""
    strikes: int
    is_lemon: bool
    causes: tuple[str, ...] = ()
    slot: str = ""
    """The PCI address, where it is known."""
    host: str = ""
    """The physical machine, where somebody names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWarning:
    """A GPU that still works: it wears out, or holds up the others of its job."""

    node: NodeId
    gpu: str
    kind: str
    """`wear` or `straggler`."""
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """How often one kind of machine of one provider fails."""

    provider: ProviderName
    instance_type: str
    failures: int
    node_days: float
    per_1000_node_days: float
    low: float
    high: float | None
    """None: too little is known for an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHealth:
    """The answer to `navarch health`."""

    now: datetime
    pools: tuple[PoolHealth, ...] = ()
    lemons: tuple[LemonView, ...] = ()
    warnings: tuple[GpuWarning, ...] = ()
    rates: tuple[FailureRate, ...] = ()
    window_days: int = 30
    """How far back lemons and rates look."""


@runtime_checkable
class FleetHealthApi(Protocol):
    """Served in-process and over HTTP."""

    async def fleet_health(self) -> FleetHealth:
        """Return how the fleet is."""
        ...
