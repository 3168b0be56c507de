"""The use cases every front door offers, served in-process or over the wire."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from navarch.core.autoscaling import Autoscaling
from navarch.core.budget import OverBudget
from navarch.core.command import Command, CommandKind
from navarch.core.disruption import Disruption
from navarch.core.event import Recorded, Subject
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.held import Held
from navarch.core.ids import CommandId, IncidentId, InstanceId, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.inventory import Inventory
from navarch.core.metrics import NodeMetrics
from navarch.core.node import InstanceState, NodeStatus, Phase
from navarch.core.offering import Offering
from navarch.core.remediation import Remediation
from navarch.core.topology import Topology

T = TypeVar("T")

PAGE_SIZE_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as an operator wants to see it."""

    id: NodeId
    pool: PoolName | None
    status: NodeStatus | None
    """None until the agent has registered."""
    phase: Phase
    health: Health
    cordoned: str | None
    retiring: str | None
    conditions: tuple[Condition, ...]
    provider: str
    region: str
    zone: str
    instance_type: str
    instance: InstanceId | None
    public_address: str
    private_address: str
    gpus: int
    price_per_hour: Decimal
    created_at: datetime
    since: datetime
    """When it entered its phase."""
    registered_at: datetime | None
    last_heartbeat: datetime | None
    replaces: NodeId | None
    labels: Mapping[str, str] = field(default_factory=dict)
    """What its pool, its agent and, about its place in the network, its provider say of it."""
    topology: Topology | None = None
    gang: str = ""
    """The gang it was bought for."""
    waiting: bool = False
    """Whether that gang is not complete, so that it takes no work yet."""
    capacity_type: str = ""
    """How its machine is paid for: reserved, spot or on demand."""
    held: Held | None = None
    """What automation would have done about it, had it been allowed to."""
    recovering: str | None = None
    """Which step of a recovery is under way, and how far it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """Everything that is known about one node."""

    node: NodeView
    inventory: Inventory | None
    metrics: NodeMetrics | None
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """A machine under a node, in the reference's words."""

    id: str
    """The provider's name for it; before there is one, the launch's token."""
    provider: str
    region: str
    zone: str
    instance_type: str
    state: InstanceState
    pool: PoolName | None
    node: NodeId
    created_at: datetime
    ready_at: datetime | None
    terminated_at: datetime | None
    message: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """What an operator asks of a pool."""

    name: PoolName
    offerings: tuple[Offering, ...]
    nodes_min: int
    nodes_max: int
    nodes_wanted: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ssh_keys: tuple[str, ...] = ()
    user_data: str = ""
    auto_replace: bool = True
    unhealthy_after: int = 2
    silent_after: timedelta = timedelta(minutes=10)
    boot_deadline: timedelta = timedelta(minutes=10)
    drain_timeout: timedelta = timedelta(minutes=5)
    autoscaling: Autoscaling | None = None
    cooldown: timedelta = timedelta(minutes=5)
    spares: int = 0
    disruption: Disruption = field(default_factory=Disruption)
    remediation: Remediation = field(default_factory=Remediation)
    shrink_after: timedelta = timedelta(minutes=5)
    gang: int = 0
    gang_hold: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A pool as an operator wants to see it."""

    spec: PoolSpec
    size: int
    """How many nodes it should have now."""
    serving: int
    starting: int
    leaving: int
    unhealthy: int
    cordoned: int
    price_per_hour: Decimal
    note: str
    """What it is waiting for, if anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """The fleet on one screen."""

    cluster: str
    version: str
    revision: int
    now: datetime
    pools: tuple[PoolView, ...]
    nodes_by_status: Mapping[str, int]
    gpus: int
    price_per_hour: Decimal
    recent: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which things to list: every field that is given must match."""

    pool: PoolName | None = None
    provider: str | None = None
    region: str | None = None
    status: NodeStatus | None = None
    health: Health | None = None
    state: InstanceState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    include_gone: bool = False
    order_by: str = "name"
    """name, created, status, health or pool; a leading minus turns it round."""
    page_size: int = 100
    page_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list. A token for the next part, if there is one."""

    items: tuple[T, ...]
    next_page_token: str = ""
    total: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One revision, as a watcher sees it: what happened, and how what it touched looks now."""

    revision: int
    events: tuple[Recorded, ...]
    nodes: tuple[NodeView, ...] = ()
    pools: tuple[PoolView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A wish for GPUs, whatever machines they come in."""

    name: PoolName
    gpus: int
    gpu_type: str
    provider: str | None = None
    region: str | None = None
    spot: bool = False
    gang: int = 0
    """How many machines must come together within one block, all or none; the GPUs are then
    rounded up to whole gangs."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine that is for sale somewhere, and what is known about it."""

    offering: Offering
    provider_type: str = ""
    configured: bool = True
    """Whether it can be bought: there is an account at that provider."""
    machines: int = 1
    """How many of them the GPUs asked for take."""
    gpu_memory_gib: float = 0.0
    """Of each GPU; zero if nobody knows."""
    interconnect: str = ""
    """Between the GPUs of one machine."""
    fabric: str = ""
    """Between machines."""
    priced_at: datetime | None = None
    """When the price held; None if nobody says."""
    sold_out: str | None = None
    """What the provider said when it last refused; None if it can be asked for."""
    sold_out_until: datetime | None = None
    """When it is tried again, at the latest when somebody needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The chain of reasons behind the state of one thing, newest first."""

    about: Subject
    state: str
    steps: tuple["Step", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happened, and what was behind it."""

    number: int
    at: datetime
    kind: str
    reason: str
    because: tuple[Why, ...] = ()
    details: tuple[str, ...] = ()
    """A table behind the reason, line by line: for a launch, what else could have been bought."""


class CostBy(StrEnum):
    """What to add costs up by."""

    POOL = "pool"
    TEAM = "team"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """What one pool, team or provider has cost."""

    name: str
    machines: int
    running: int
    machine_time: timedelta
    spent: Decimal
    per_hour: Decimal
    forecast: Decimal
    """What this month will have cost, if what runs now runs to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """A budget, and how far it is used up this month."""

    name: str
    limit_per_month: Decimal
    spent: Decimal
    forecast: Decimal
    when_spent: OverBudget
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What everything has cost in a window of time."""

    by: CostBy
    since: datetime
    until: datetime
    lines: tuple[CostLine, ...]
    total: CostLine
    budgets: tuple[BudgetView, ...] = ()


class FleetApi(Protocol):
    """What operators, the CLI, the MCP server and the dashboard are written against.

    Raises NotFoundError for an unknown name, InvalidError for a request that makes no
    sense, NotPossibleError for one that does not fit the present state.
    """

    async def status(self) -> FleetStatus:
        """Return the fleet on one screen."""
        ...

    async def list_nodes(self, query: Query) -> Page[NodeView]:
        """Return the nodes that match."""
        ...

    async def get_node(self, name: NodeId) -> NodeDetail:
        """Return one node."""
        ...

    async def list_instances(self, query: Query) -> Page[InstanceView]:
        """Return the machines that match."""
        ...

    async def get_instance(self, name: str) -> InstanceView:
        """Return one machine, by its provider's name, its launch's token or its node's name."""
        ...

    async def list_pools(self) -> Sequence[PoolView]:
        """Return every pool, by name."""
        ...

    async def get_pool(self, name: PoolName) -> PoolView:
        """Return one pool."""
        ...

    async def put_pool(self, spec: PoolSpec, *, reason: str) -> PoolView:
        """Create a pool, or change the one of that name."""
        ...

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> PoolView:
        """Ask for a size within the pool's bounds."""
        ...

    async def delete_pool(self, pool: PoolName, *, reason: str) -> PoolView:
        """Drain and give back every node of a pool, then the pool."""
        ...

    async def up(self, capacity: Capacity) -> PoolView:
        """Create a pool that holds so many GPUs, or adjust the one of that name."""
        ...

    async def offers(
        self,
        *,
        gpu_type: str = "",
        gpus: int = 0,
        provider: str | None = None,
        region: str | None = None,
    ) -> Sequence[Offer]:
        """Return what is for sale, cheapest first: any type if empty, any number if zero."""
        ...

    async def cordon(self, node: NodeId, *, reason: str) -> NodeView:
        """Keep new work off a node; a drain that was asked for by hand is called off."""
        ...

    async def uncordon(self, node: NodeId) -> NodeView:
        """Lift a cordon, and nothing else."""
        ...

    async def drain(self, node: NodeId, *, reason: str) -> NodeView:
        """Move the work off a node, which stays."""
        ...

    async def retire(self, node: NodeId, *, reason: str) -> NodeView:
        """Drain a node and give its machine back; its pool will replace it."""
        ...

    async def declare_healthy(self, node: NodeId, *, reason: str) -> NodeView:
        """Override what the checks say about a node."""
        ...

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: Mapping[str, str] | None = None
    ) -> Command:
        """Ask a node's agent to do something."""
        ...

    async def get_command(self, command: CommandId) -> Command:
        """Return how far a command has come."""
        ...

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault; NotPossibleError for a real one."""
        ...

    async def list_incidents(
        self, *, node: NodeId | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Incident]:
        """Return the newest incidents, the latest first."""
        ...

    async def get_incident(self, incident: IncidentId) -> Incident:
        """Return one incident, with everything that was seen of it."""
        ...

    async def events(
        self, *, after: int = 0, about: Subject | None = None, limit: int = 100
    ) -> Sequence[Recorded]:
        """Return the journal after event number `after`, oldest first."""
        ...

    def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        """Yield every revision after the given one (the present, if None), none left out.

        Raises NotPossibleError if the journal no longer reaches back that far.
        """
        ...

    async def cost(self, by: CostBy = CostBy.POOL, *, since: datetime | None = None) -> CostReport:
        """Return what everything has cost since `since`, this month's beginning if None."""
        ...

    async def why(self, about: Subject) -> Why:
        """Return the reasons behind the state of a node, a pool or a launch."""
        ...
