"""The API for the health of the fleet and for actions that wait for an operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.disruption import Deferred
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.recovery import Recovery


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node with an action that is held back."""

    node: NodeId
    pool: PoolName | None
    held: Deferred


@runtime_checkable
class HeldApi(Protocol):
    """The API for held actions, served in-process and over HTTP."""

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return every node with a held action, the longest held first."""

    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Release the held actions of some nodes, or of all nodes of a pool.

        A pool that stopped launching, because its machines did not come up, buys again.
        Raises NotPossibleError if nothing is held, or if the pool's remediation is a dry run.
        """

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the stored recoveries, newest first."""
