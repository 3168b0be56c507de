"""The API for operators, served in-process or over HTTP."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from navarch.core.autoscaling import Autoscaling
from navarch.core.budget import OverBudget
from navarch.core.disruption import Deferred, Disruption
from navarch.core.event import Explanation, Recorded, Subject
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.ids import CommandId, IncidentId, InstanceId, JobName, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.instance import Inventory, NodeMetrics, Topology
from navarch.core.job import DEFAULT_PRIORITY, DEFAULT_QUEUE, Job
from navarch.core.launch import Offering, Progress
from navarch.core.machine_setup import MachineSetup
from navarch.core.node import InstanceState, NodeStatus, Phase
from navarch.core.recovery import Command, CommandKind, Remediation
from navarch.core.witness import Testimony

T = TypeVar("T")

PAGE_SIZE_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as operators see it."""

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
    """Labels from its pool, its agent and, for its place in the network, its provider."""
    topology: Topology | None = None
    gang: str = ""
    """The gang for which it was bought."""
    waiting: bool = False
    """Whether that gang is incomplete, so the node accepts no work yet."""
    capacity_type: str = ""
    """How its machine is paid for: reserved, spot or on demand."""
    held: Deferred | None = None
    """The action that automation holds back."""
    testimonies: tuple[Testimony, ...] = ()
    """What witnesses report about it while its agent is silent."""
    recovering: str | None = None
    """The current step of its recovery, and the progress of that step."""
    boot: Progress | None = None
    """The last step of its machine while it boots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetail:
    """A node with its inventory, metrics and commands."""

    node: NodeView
    inventory: Inventory | None
    metrics: NodeMetrics | None
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """The machine of a node."""

    id: str
    """The provider's id; the launch token until there is one."""
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
    """The desired state of a pool."""

    name: PoolName
    offerings: tuple[Offering, ...]
    nodes_min: int
    nodes_max: int
    nodes_wanted: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ssh_keys: tuple[str, ...] = ()
    user_data: str = ""
    """The whole user data of its machines. To add to the boot script of the agent, use `setup`."""
    setup: MachineSetup = field(default_factory=MachineSetup)
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
    """A pool as operators see it."""

    spec: PoolSpec
    size: int
    """The number of nodes that it should have now."""
    serving: int
    starting: int
    leaving: int
    unhealthy: int
    cordoned: int
    price_per_hour: Decimal
    note: str
    """Why it has not reached its size, if it has not."""
    degraded: int = 0
    hosts: int = 0
    """Self-registered nodes of it, which are counted above and never terminated."""
    paused: str = ""
    """Why purchases or automatic actions wait, and for what; empty if none do."""


STILL_CONFIGURED = (
    "the configuration file still has this pool, and a restart of the server creates it again; "
    "remove it there as well"
)
"""The note of a pool of the file that has been deleted over the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingController:
    """A controller with a last round that failed, or an extension with a last call that did.

    It is tried again, with growing pauses.
    """

    name: str
    error: str
    times: int
    """The number of failures in a row."""
    since: datetime
    retry_at: datetime | None
    """None if it depends on the next need for it."""
    kind: str = "controller"
    """`controller`, or the kind of an extension."""
    subject: str = ""
    """The pool, node or provider that the failure of an extension is limited to."""
    others: int = 0
    """How many other subjects it fails on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """A server that answers requests, on the same database as the others."""

    address: str
    """The address at which other replicas reach it."""
    version: str
    leads: bool
    behind: int
    """The commits that it has not followed yet."""
    silent_for: timedelta
    """How long ago it reported to the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """What holds the fleet."""

    kind: str
    """SQLite, PostgreSQL or memory."""
    place: str
    """The file, or the address of the database without its password."""
    bytes: int
    answers_in: timedelta
    """How long it took to return its size."""
    standbys: tuple[int, ...] = ()
    """The servers on standby that follow it: how many revisions each is behind."""
    replicas: tuple[ReplicaStatus, ...] = ()


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
    nodes_by_health: Mapping[str, int] = field(default_factory=dict)
    """The number of registered nodes by health."""
    open_incidents: int = 0
    incidents: tuple[Incident, ...] = ()
    """The newest open incidents."""
    failing: tuple[FailingController, ...] = ()
    store: StoreStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter for lists: every given field must match."""

    pool: PoolName | None = None
    provider: str | None = None
    region: str | None = None
    status: NodeStatus | None = None
    health: Health | None = None
    state: InstanceState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    include_gone: bool = False
    order_by: str = "name"
    """name, created, status, health or pool; a leading minus reverses the order."""
    page_size: int = 100
    page_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list, with a token for the next part if there is one."""

    items: tuple[T, ...]
    next_page_token: str = ""
    total: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One revision for watchers: its events, and the nodes and pools that it changed."""

    revision: int
    events: tuple[Recorded, ...]
    nodes: tuple[NodeView, ...] = ()
    pools: tuple[PoolView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A number of GPUs to buy, on whatever machines have them."""

    name: PoolName
    gpus: int
    gpu_type: str
    provider: str | None = None
    region: str | None = None
    spot: bool = False
    gang: int = 0
    """The number of machines that must be in one block, all or none; the GPUs are then rounded up
    to whole gangs."""
    setup: MachineSetup | None = None
    """How the machines are set up; None: as the pool is now."""
    ssh_keys: tuple[str, ...] = ()
    """The keys that can log in to the machines; empty: as the pool is now."""
    own_key: str = ""
    """The public key of the requester, which a new pool gets if `ssh_keys` is empty."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A type of machine that is for sale, with its properties."""

    offering: Offering
    provider_type: str = ""
    configured: bool = True
    """Whether it can be bought, because an account at that provider is configured."""
    machines: int = 1
    """The number of machines for the requested GPUs."""
    gpu_memory_gib: float = 0.0
    """Of each GPU; zero if unknown."""
    interconnect: str = ""
    """Between the GPUs of one machine."""
    fabric: str = ""
    """Between machines."""
    priced_at: datetime | None = None
    """The time for which the price holds; None if unknown."""
    sold_out: str | None = None
    """The reason of the provider's last refusal; None if it is available."""
    sold_out_until: datetime | None = None
    """When a launch of it is tried again, at the latest on the next demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The chain of reasons for the state of a node, pool or launch, newest first."""

    about: Subject
    state: str
    steps: tuple["Step", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event, and the reasons behind it."""

    number: int
    at: datetime
    kind: str
    reason: str
    because: tuple[Why, ...] = ()
    details: tuple[str, ...] = ()
    """A table that supports the reason, line by line: for a launch, the other options."""


class CostBy(StrEnum):
    """The grouping of costs."""

    POOL = "pool"
    TEAM = "team"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """The cost of one pool, team or provider."""

    name: str
    machines: int
    running: int
    machine_time: timedelta
    spent: Decimal
    per_hour: Decimal
    forecast: Decimal
    """The cost of this month if the present machines run until its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetView:
    """A budget, and how much of it is used this month."""

    name: str
    limit_per_month: Decimal
    spent: Decimal
    forecast: Decimal
    when_spent: OverBudget
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Costs in a window of time."""

    by: CostBy
    since: datetime
    until: datetime
    lines: tuple[CostLine, ...]
    total: CostLine
    budgets: tuple[BudgetView, ...] = ()


class FleetApi(Protocol):
    """The API that the CLI, the MCP server and the dashboard use.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request,
    NotPossibleError for one that does not fit the present state.
    """

    async def status(self) -> FleetStatus:
        """Return the fleet on one screen."""

    async def list_nodes(self, query: Query) -> Page[NodeView]:
        """Return the nodes that match."""

    async def get_node(self, name: NodeId) -> NodeDetail:
        """Return one node."""

    async def list_instances(self, query: Query) -> Page[InstanceView]:
        """Return the machines that match."""

    async def get_instance(self, name: str) -> InstanceView:
        """Return one machine, by its provider's name, its launch's token or its node's name."""

    async def list_pools(self) -> Sequence[PoolView]:
        """Return every pool, by name."""

    async def get_pool(self, name: PoolName) -> PoolView:
        """Return one pool."""

    async def put_pool(self, spec: PoolSpec, *, reason: str) -> PoolView:
        """Create a pool, or change the one of that name."""

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> PoolView:
        """Set the size of a pool, within its bounds."""

    async def delete_pool(self, pool: PoolName, *, reason: str) -> PoolView:
        """Drain and terminate every node of a pool, then delete the pool."""

    async def up(self, capacity: Capacity) -> PoolView:
        """Create a pool with that many GPUs, or adjust the pool of that name."""

    async def offers(
        self,
        *,
        gpu_type: str = "",
        gpus: int = 0,
        provider: str | None = None,
        region: str | None = None,
    ) -> Sequence[Offer]:
        """Return the offers, cheapest first: of any type if empty, for any number if zero."""

    async def cordon(self, node: NodeId, *, reason: str) -> NodeView:
        """Keep new work off a node; cancel a drain that an operator requested."""

    async def uncordon(self, node: NodeId) -> NodeView:
        """Lift a cordon, and call off a drain that an operator requested.

        Conditions stay: an unhealthy node remains unhealthy.
        """

    async def drain(self, node: NodeId, *, reason: str) -> NodeView:
        """Move the work off a node; the node stays."""

    async def retire(self, node: NodeId, *, reason: str) -> NodeView:
        """Drain a node and terminate its machine; the pool replaces it."""

    async def declare_healthy(self, node: NodeId, *, reason: str) -> NodeView:
        """Override the results of a node's checks."""

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: Mapping[str, str] | None = None
    ) -> Command:
        """Send a command to a node's agent."""

    async def get_command(self, command: CommandId) -> Command:
        """Return a command with its present status."""

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault; NotPossibleError for a real one."""

    async def list_incidents(
        self, *, node: NodeId | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Incident]:
        """Return incidents, newest first."""

    async def get_incident(self, incident: IncidentId) -> Incident:
        """Return one incident with all its symptoms."""

    async def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Recorded]:
        """Return events between two numbers: the oldest in order, or the newest in reverse."""

    def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        """Yield every revision after the given one (the present one if None), without gaps.

        Raises NotPossibleError if the journal no longer reaches back that far.
        """

    async def cost(self, by: CostBy = CostBy.POOL, *, since: datetime | None = None) -> CostReport:
        """Return the costs since `since`, by default since the beginning of this month."""

    async def why(self, about: Subject) -> Why:
        """Return the reasons for the state of a node, a pool or a launch."""


class DetailedFleet(FleetApi, Protocol):
    """FleetApi in the process of the control plane, which also lists all details."""

    def list_node_details(self, query: Query) -> AsyncIterator[Sequence[NodeDetail]]:
        """Yield the nodes that match, by name: all of them, some at a time.

        Neither the order nor the page of `query` counts.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request for GPUs that are allocated together and held until they are released."""

    name: JobName
    tasks: int = 1
    gpus: int = 1
    """Per task, all on one node."""
    queue: str = DEFAULT_QUEUE
    pool: PoolName | None = None
    gpu_type: str = ""
    priority: int = DEFAULT_PRIORITY
    preemptible: bool = False
    runtime: timedelta | None = None
    """The expected run time."""


@runtime_checkable
class JobApi(Protocol):
    """The API for jobs, served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request,
    NotPossibleError for one that does not fit the state of the job.
    """

    async def submit_job(self, request: JobRequest) -> Job:
        """Submit a job; the same request again changes nothing."""

    async def list_jobs(self, *, queue: str | None = None, over: bool = False) -> Sequence[Job]:
        """Return jobs in the order of their submission; with `over`, including ended ones."""

    async def get_job(self, name: JobName) -> Job:
        """Return one job."""

    async def cancel_job(self, name: JobName, *, reason: str) -> Job:
        """Cancel a queued or running job; its GPUs are free at once."""

    async def finish_job(self, name: JobName) -> Job:
        """Mark a job as done and release its GPUs."""

    async def checkpoint_job(self, name: JobName) -> Job:
        """Record that a job has written a checkpoint just now."""

    async def requeue_job(
        self,
        name: JobName,
        *,
        reason: str,
        placed_at: datetime | None = None,
        node: NodeId | None = None,
    ) -> Job:
        """Release the GPUs of a placed job after its program has stopped, and requeue the job.

        With `placed_at`, only the placement that began at that time is ended: a job that has
        been placed again since, or waits already, is returned unchanged. `node` names the node on
        which the program failed first.
        """

    async def explain_job(self, name: JobName) -> Explanation:
        """Return the reasons for the state of a job, from the present fleet."""
