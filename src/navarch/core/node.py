"""Nodes: machines of the fleet, from the request until they are gone.

Three properties are stored, each changed on its own: the phase of the lifecycle, the cordon, and
the health of the hardware. The states that users see are functions of those.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypedDict, Unpack

import msgspec

from navarch.core.disruption import Deferred
from navarch.core.health import CRASH_LOOP, TESTING, Condition, Health
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, RecoveryId
from navarch.core.instance import Topology
from navarch.core.launch import Gang, Launch, Offering
from navarch.core.records import evolve
from navarch.core.witness import Testimony

DRIVER = "driver"
IMAGE = "image"
KERNEL = "kernel"
AGENT = "agent"
POLICY = "policy"

CHANGING = (DRIVER, IMAGE, KERNEL, AGENT)
"""The traits that an upgrade changes on a node, the most suspect first."""

LINK = "link"
"""The trait that names where the agent registered: the address and the protocol of a server, as
the server itself names it."""

CHECK_TRAIT = "check/"
"""Prefix of the traits that hold the version of one check, where it is not that of the agent."""


class Trait(msgspec.Struct, frozen=True, kw_only=True):
    """One value, and the value that it replaced."""

    value: str
    since: datetime
    before: str = ""
    """Empty if the node never had another."""
    past: "Trait | None" = None
    """The trait that it replaced, without its own past: a fault may be older than the value."""

    def followed_by(self, value: str, *, at: datetime) -> "Trait":
        """Return the trait of a node that had this one and has `value` now."""
        return Trait(value=value, since=at, before=self.value, past=evolve(self, past=None))

    def value_at(self, at: datetime) -> str:
        """Return the value at an earlier time, as far as it is recorded."""
        if self.since <= at:
            return self.value
        return self.before if self.past is None else self.past.value_at(at)


class Phase(StrEnum):
    """The phase of a node's lifecycle."""

    REQUESTED = "requested"
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"
    GONE = "gone"


NEXT_PHASES: dict[Phase, frozenset[Phase]] = {
    # The provider accepted; the agent registered before the provider answered; the request was
    # withdrawn while a machine may exist; it was withdrawn before one could exist.
    Phase.REQUESTED: frozenset({Phase.BOOTING, Phase.READY, Phase.TERMINATING, Phase.GONE}),
    # The agent registered; it never did; the provider removed the machine.
    Phase.BOOTING: frozenset({Phase.READY, Phase.TERMINATING, Phase.GONE}),
    Phase.READY: frozenset({Phase.DRAINING, Phase.TERMINATING, Phase.GONE}),
    # A drain may be cancelled.
    Phase.DRAINING: frozenset({Phase.READY, Phase.TERMINATING, Phase.GONE}),
    Phase.TERMINATING: frozenset({Phase.GONE}),
    Phase.GONE: frozenset(),
}

HOST_LABELS = ("host_id", "serial")
"""The labels with which an agent may name its physical machine."""

POOL_LABEL = "pool"
"""The label with which an agent names the pool that its machine serves."""

LIVE = frozenset({Phase.REQUESTED, Phase.BOOTING, Phase.READY, Phase.DRAINING})
"""Phases in which the machine is not being terminated."""


class NodeStatus(StrEnum):
    """The state of a registered node, as shown to operators."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    TERMINATED = "terminated"


class InstanceState(StrEnum):
    """The state of the machine under a node, as shown to operators."""

    PROVISIONING = "provisioning"
    PENDING_REGISTRATION = "pending_registration"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"


class NotifiedState(StrEnum):
    """The state of a node that was last reported to the workload system."""

    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Retirement(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for terminating a node."""

    reason: str
    surplus: bool = False
    """Whether the node is sound and surplus, so that nothing replaces it."""
    urgent: bool = False
    """Whether its machine ends within minutes, so that its work cannot wait for a successor."""
    failed_at: datetime | None = None
    """When its machine was abandoned because its agent never registered; None otherwise."""
    decided_at: datetime | None = None
    """When that was decided; None in records of earlier versions."""


PAST_SILENCES_MAX = 16
"""How many silences of a node are remembered: a loose cable interrupts it again and again."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """A time without reports of a node that reported again."""

    since: datetime
    until: datetime


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The label with the name of the cluster on a machine that was not bought here.

    It tells other clusters to leave the machine alone, and proves nothing: without a signature no
    machine is terminated for it.
    """

    provider: ProviderName
    instance: InstanceId
    done: bool = False
    """Whether the provider has confirmed it. Until then the machine may have it or not."""


class Along(TypedDict, total=False):
    """Fields that may change together with the phase of a node."""

    launch: Launch | None
    retiring: Retirement | None
    notified: NotifiedState
    cordoned: str | None
    acted_at: datetime | None
    held: Deferred | None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One machine of the fleet."""

    id: NodeId
    pool: PoolName | None
    """None for a machine that registered by itself and was not bought here."""
    phase: Phase
    since: datetime
    """When it entered its phase."""
    created_at: datetime
    cordoned: str | None = None
    """The reason why no new work may start here; None: not cordoned."""
    health: Health = Health.UNKNOWN
    conditions: tuple[Condition, ...] = ()
    """Its faults; empty if it has none."""
    retiring: Retirement | None = None
    """A retiring node never counts towards its pool's size again."""
    replaces: NodeId | None = None
    """The node that it replaces."""
    launch: Launch | None = None
    """The launch that created its machine, or may still create it."""
    attempts: int = 0
    """The number of refused launches. It decides the next offering and the back-off."""
    retry_at: datetime | None = None
    refused: Launch | None = None
    """Its last launch that a provider refused, until another buys a machine."""
    registered_at: datetime | None = None
    boot_id: str = ""
    machine: str = ""
    """The hash of the key of the machine that joined with its launch's token; no other can."""
    booted_at: datetime | None = None
    """When its agent first reported in this boot."""
    offering: Offering | None = None
    """The kind and place that the agent reports, for a machine that was not bought here."""
    gpus: int | None = None
    """The number of GPUs that the agent found; None: not reported yet."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The labels with which the agent is configured."""
    address: str = ""
    """The address of the machine in its network, as its agent reports it."""
    probes: bool = False
    """Whether its agent can connect to other nodes on request."""
    dead_man_s: int = 0
    """How long, in seconds, its machine runs idle without a control plane; 0 for ever."""
    topology: Topology | None = None
    """Its place in the provider's network, once the provider reports it."""
    gang: Gang | None = None
    """The gang it was bought for."""
    waiting: bool = False
    """Whether its gang is incomplete: the machine is kept for now and takes no work."""
    notified: NotifiedState = msgspec.field(default=NotifiedState.OPEN, name="told")
    report_stream: str = ""
    report_number: int = 0
    """The newest report of its agent that changed this record."""
    traits: Mapping[str, Trait] = msgspec.field(default_factory=dict)
    """Driver, image and other things that an upgrade changes, with the date of the change."""
    vouched_boot: str = ""
    """The boot in which the boot check passed: until then a new boot clears no fault."""
    recovery: RecoveryId | None = None
    """The recovery that is under way."""
    acted_at: datetime | None = None
    """When automation last acted on it."""
    held: Deferred | None = None
    """The deferred action of automation, if there is one."""
    testimonies: tuple[Testimony, ...] = ()
    """What witnesses report about it while its agent is silent; empty once it reports again."""
    past_silences: tuple[Silence, ...] = ()
    """When it stopped reporting for too long and came back; the last ones, oldest first."""
    mark: Mark | None = None
    """The mark of its adopted machine; after a release, until the provider has removed it."""
    overridden_at: datetime | None = None
    """When an operator last declared it healthy: earlier deaths of jobs are no evidence."""

    @property
    def instance(self) -> InstanceId | None:
        """The provider's name for the machine, once it is known."""
        return self.launch.instance if self.launch else None

    @property
    def place(self) -> Offering | None:
        """The kind and place of the machine."""
        return self.launch.offering if self.launch else self.offering

    @property
    def provider(self) -> ProviderName | None:
        """The provider that owns the machine."""
        return self.place.provider if self.place else None

    @property
    def host(self) -> str:
        """The physical machine under it, as agent or provider name it; empty if neither does.

        It outlives the node: the next node on the same machine has the same host.
        """
        named = next((self.labels[name] for name in HOST_LABELS if self.labels.get(name)), "")
        if not named and self.topology:
            named = self.topology.host
        return f"{self.provider or ''}/{named}" if named else ""

    @property
    def self_registered(self) -> bool:
        """Whether its agent registered a machine that Navarch did not buy and cannot terminate."""
        return self.launch is None and self.registered_at is not None

    @property
    def host_of(self) -> PoolName | None:
        """The pool that a self-registered node serves: the one that its agent's labels name."""
        if self.gone or not self.self_registered:
            return None
        return PoolName(self.labels.get(POOL_LABEL, "")) or None

    @property
    def serves(self) -> PoolName | None:
        """The pool that it belongs to, or serves as a host."""
        return self.pool or self.host_of

    @property
    def gone(self) -> bool:
        """Whether the machine no longer exists, if it ever did."""
        return self.phase is Phase.GONE

    @property
    def counts(self) -> bool:
        """Whether the node counts towards its pool's wanted size."""
        return self.phase in LIVE and self.retiring is None

    @property
    def open_to_work(self) -> bool:
        """Whether new work may start here if the node is not unhealthy."""
        if self.phase is not Phase.READY or self.retiring is not None or self.waiting:
            return False
        if self.cordoned is not None:
            return False
        return all(condition.check not in (TESTING, CRASH_LOOP) for condition in self.conditions)

    @property
    def serving(self) -> bool:
        """Whether new work may start here: never on a node with a fatal fault.

        Other schedulers only receive what remediation decides, within the limits of the governor: a
        check that is wrong must not close a whole fleet to work.
        """
        if self.health is Health.UNHEALTHY or any(each.fatal for each in self.conditions):
            return False
        return self.open_to_work

    def move_to(self, phase: Phase, *, at: datetime, **along: Unpack[Along]) -> "Node":
        """Return this node in `phase`, with other fields changed `along` with it.

        Only `fleet.lifecycle` calls this. An illegal move is a bug.
        """
        assert phase in NEXT_PHASES[self.phase], f"{self.id}: {self.phase} -> {phase}"
        return evolve(self, phase=phase, since=at, **along)


_STATUS_OF_THE_LEAVING = {
    Phase.DRAINING: NodeStatus.DRAINING,
    Phase.TERMINATING: NodeStatus.DRAINING,
    Phase.GONE: NodeStatus.TERMINATED,
}


def node_status(node: Node) -> NodeStatus | None:
    """Return the state shown to operators; None before the agent has registered."""
    if node.registered_at is None:
        return None
    leaving = _STATUS_OF_THE_LEAVING.get(node.phase)
    if leaving is not None:
        return leaving
    if node.health is Health.UNHEALTHY:
        return NodeStatus.UNHEALTHY
    return NodeStatus.CORDONED if node.cordoned is not None else NodeStatus.ACTIVE


_INSTANCE_STATES = {
    Phase.REQUESTED: InstanceState.PROVISIONING,
    Phase.BOOTING: InstanceState.PENDING_REGISTRATION,
    Phase.READY: InstanceState.RUNNING,
    Phase.DRAINING: InstanceState.RUNNING,
    Phase.TERMINATING: InstanceState.TERMINATING,
}


def instance_state(node: Node) -> InstanceState:
    """Return the state shown to operators for the machine under `node`."""
    if node.gone:
        ran = node.registered_at is not None
        return InstanceState.TERMINATED if ran else InstanceState.FAILED
    return _INSTANCE_STATES[node.phase]
