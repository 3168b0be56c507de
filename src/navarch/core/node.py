"""A node: one machine the fleet wants, from the wish for it to its grave.

Three things are stored, each changed on its own: the phase of its life, whether it is
cordoned, and the health of its hardware. The words users see are functions of those.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypedDict, Unpack

import msgspec

from navarch.core.evolve import evolve
from navarch.core.gang import Gang
from navarch.core.health import TESTING, Condition, Health
from navarch.core.held import Deferred
from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, RecoveryId
from navarch.core.launch import Launch
from navarch.core.offering import Offering
from navarch.core.topology import Topology
from navarch.core.trait import Trait


class Phase(StrEnum):
    """Where a node stands in its life."""

    REQUESTED = "requested"
    BOOTING = "booting"
    READY = "ready"
    DRAINING = "draining"
    TERMINATING = "terminating"
    GONE = "gone"


NEXT_PHASES: dict[Phase, frozenset[Phase]] = {
    # The provider accepted; the agent was quicker than the provider's answer; we changed our
    # mind while a machine may exist; we changed our mind before one could.
    Phase.REQUESTED: frozenset({Phase.BOOTING, Phase.READY, Phase.TERMINATING, Phase.GONE}),
    # The agent registered; it never did; the provider took the machine away.
    Phase.BOOTING: frozenset({Phase.READY, Phase.TERMINATING, Phase.GONE}),
    Phase.READY: frozenset({Phase.DRAINING, Phase.TERMINATING, Phase.GONE}),
    # A drain may be called off.
    Phase.DRAINING: frozenset({Phase.READY, Phase.TERMINATING, Phase.GONE}),
    Phase.TERMINATING: frozenset({Phase.GONE}),
    Phase.GONE: frozenset(),
}

HOST_LABELS = ("host_id", "serial")
"""The labels by which an agent may name the machine under it."""

LIVE = frozenset({Phase.REQUESTED, Phase.BOOTING, Phase.READY, Phase.DRAINING})
"""Phases in which nobody has decided yet that the machine must go."""


class NodeStatus(StrEnum):
    """The word operators see for a registered node."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    TERMINATED = "terminated"


class InstanceState(StrEnum):
    """The word operators see for the machine under a node."""

    PROVISIONING = "provisioning"
    PENDING_REGISTRATION = "pending_registration"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"


class NotifiedState(StrEnum):
    """What the workload system was last told about a node."""

    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Retirement(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node is to be given back, or was."""

    reason: str
    surplus: bool = False
    """Whether the pool simply wants fewer: nothing is wrong with it, and nothing replaces it."""
    urgent: bool = False
    """Whether its machine will be gone in minutes, so that its work cannot wait for a successor."""
    failed_at: datetime | None = None
    """When its machine was given up because its agent never reported in; None for other reasons."""


class Along(TypedDict, total=False):
    """What may change of a node as it moves on: one copy of it is enough for both."""

    launch: Launch | None
    retiring: Retirement | None
    told: NotifiedState
    cordoned: str | None
    acted_at: datetime | None
    held: Deferred | None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What the fleet knows about one machine."""

    id: NodeId
    pool: PoolName | None
    """None for a machine that registered by itself and that nobody here bought."""
    phase: Phase
    since: datetime
    """When it entered its phase."""
    created_at: datetime
    cordoned: str | None = None
    """Why no new work may start here."""
    health: Health = Health.UNKNOWN
    conditions: tuple[Condition, ...] = ()
    """What is wrong with it; empty when nothing is."""
    retiring: Retirement | None = None
    """Such a node no longer counts towards its pool's size, and never will again."""
    replaces: NodeId | None = None
    """The node whose place it takes."""
    launch: Launch | None = None
    """The attempt that made its machine, or may yet make it."""
    attempts: int = 0
    """How many launches were refused, which tells where to try next and how long to wait."""
    retry_at: datetime | None = None
    registered_at: datetime | None = None
    boot_id: str = ""
    machine: str = ""
    """The machine that joined with its launch's token, by the hash of its key; no other can."""
    booted_at: datetime | None = None
    """When its agent was first heard of in this boot."""
    offering: Offering | None = None
    """What the agent said about where it runs, for a machine that nobody here bought."""
    gpus: int | None = None
    """How many GPUs the agent has found, once it has looked."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What the agent was told to say about itself."""
    topology: Topology | None = None
    """Where in its provider's network it stands, once the provider has said so."""
    gang: Gang | None = None
    """The gang it was bought for."""
    waiting: bool = False
    """Whether its gang is not complete: the machine is kept for now, and takes no work."""
    told: NotifiedState = NotifiedState.OPEN
    report_stream: str = ""
    report_number: int = 0
    """The newest report of its agent that changed something here."""
    traits: Mapping[str, Trait] = msgspec.field(default_factory=dict)
    """Driver, image and whatever else an upgrade changes, with the date of the change."""
    vouched_boot: str = ""
    """The boot whose boot check has passed: until then a new boot proves nothing."""
    recovery: RecoveryId | None = None
    """The attempt to mend it that is under way."""
    acted_at: datetime | None = None
    """When automation last decided something against it, for whatever it has done since."""
    held: Deferred | None = None
    """What automation would have done about it, had it been allowed to."""

    @property
    def instance(self) -> InstanceId | None:
        """The provider's name for the machine, once we have seen it."""
        return self.launch.instance if self.launch else None

    @property
    def place(self) -> Offering | None:
        """What kind of machine it is, and where."""
        return self.launch.offering if self.launch else self.offering

    @property
    def provider(self) -> ProviderName | None:
        """Who owns the machine."""
        launch = self.launch
        place = launch.offering if launch else self.offering
        return place.provider if place else None

    @property
    def host(self) -> str:
        """The physical machine under it, as agent or provider name it; empty if nobody does.

        It outlives the node: the next that is placed on the same machine has the same.
        """
        labels = self.labels
        said = (
            next((labels[name] for name in HOST_LABELS if labels.get(name)), "") if labels else ""
        )
        named = said or (self.topology.host if self.topology else "")
        return f"{self.provider or ''}/{named}" if named else ""

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
        """Whether nothing but its health could keep new work from starting here."""
        if self.phase is not Phase.READY or self.retiring is not None or self.waiting:
            return False
        if self.cordoned is not None:
            return False
        found = self.conditions
        return not found or all(condition.check != TESTING for condition in found)

    @property
    def serving(self) -> bool:
        """Whether new work may start here."""
        return self.health is not Health.UNHEALTHY and self.open_to_work

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
    """Return the word operators see; none before the agent has registered."""
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
    """Return the word operators see for the machine under `node`."""
    if node.gone:
        ran = node.registered_at is not None
        return InstanceState.TERMINATED if ran else InstanceState.FAILED
    return _INSTANCE_STATES[node.phase]
