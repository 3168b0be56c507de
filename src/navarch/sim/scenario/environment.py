"""The environment of a scenario's fleet: the network, the control plane and agents' intervals."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import DURATION, DURATION_OR_ZERO, TEXT, Choice, Integer, ListOf
from navarch.config.schema import Fault, block, key
from navarch.service.agents import Timing
from navarch.sim.scenario.kinds import SHARE, TargetScope, check_percentage


def _check_partition(scope: TargetScope, target: str) -> Iterator[Fault]:
    if scope is TargetScope.PERCENTAGE:
        yield from check_percentage(target)
    if scope is not TargetScope.ALL and not target:
        yield Fault(
            at=("target",), message="target is required", remedy=f"add the name of a {scope}"
        )


@block(rules=(_check_partition,))
class Partition:
    """A period during which agents cannot reach the control plane. Their machines are sound."""

    at: timedelta = key(DURATION_OR_ZERO, doc="when it begins")
    duration: timedelta = key(DURATION, doc="how long it lasts")
    scope: TargetScope = key(
        Choice(options=TargetScope), default=TargetScope.NODE, doc="what `target` names"
    )
    target: str = key(TEXT, default="", doc="the machines that are cut off")


def _check_latency(latency_min: timedelta, latency_max: timedelta) -> Iterator[Fault]:
    if latency_min > latency_max:
        yield Fault(
            at=("latency_min",), message="latency_min is above latency_max", remedy="swap the two"
        )


@block(rules=(_check_latency,))
class NetworkConfig:
    """The network between agents and the control plane."""

    loss: float = key(
        SHARE,
        default=0.0,
        doc="the share of messages that are lost, sent twice, or whose answer is lost",
    )
    latency_min: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the shortest delay of a message"
    )
    latency_max: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="the longest delay of a message"
    )
    partitions: tuple[Partition, ...] = key(
        ListOf(each=Nested(cls=Partition)), default=(), doc="which agents are cut off, and when"
    )


@block()
class CrashConfig:
    """A crash of the leading control plane, which is then started again."""

    at: timedelta = key(DURATION_OR_ZERO, doc="when it happens")
    down_for: timedelta = key(DURATION, default=timedelta(seconds=5), doc="time to the restart")


@block()
class ControlPlaneConfig:
    """The control plane: its replicas and the failures injected into it."""

    replicas: int = key(
        Integer(least=1, most=9),
        default=1,
        doc="the number of replicas: one leads, and a standby takes over if it dies",
    )
    takeover: timedelta = key(
        DURATION, default=timedelta(seconds=1), doc="how long a takeover takes"
    )
    crashes: tuple[CrashConfig, ...] = key(
        ListOf(each=Nested(cls=CrashConfig)), default=(), doc="when the leader crashes"
    )
    conflicts: float = key(
        SHARE,
        default=0.0,
        doc="the share of its commits that fail because another writer was faster",
    )


class Fidelity(StrEnum):
    """The agents that machines run."""

    SIMULATED = "simulated"
    REAL = "real"


@block()
class AgentsConfig:
    """The agents on the machines: simulated ones, or the product's own."""

    fidelity: Fidelity = key(
        Choice(options=Fidelity),
        default=Fidelity.SIMULATED,
        doc="`real` runs the product's agent, in virtual time, with a check that finds the "
        "injected faults; it takes far more CPU than a simulated agent",
    )
    share: float = key(SHARE, default=1.0, doc="the share of machines with `fidelity: real`")

    @property
    def product_share(self) -> float:
        """The share of machines that run the product's agent."""
        return self.share if self.fidelity is Fidelity.REAL else 0.0


def _check_heartbeats(
    heartbeat_interval: timedelta, heartbeat_timeout: timedelta | None
) -> Iterator[Fault]:
    if heartbeat_timeout is not None and heartbeat_timeout <= heartbeat_interval:
        yield Fault(
            at=("heartbeat_timeout",),
            message="heartbeat_timeout must be longer than heartbeat_interval",
            remedy="three times as long is usual",
        )


@block(rules=(_check_heartbeats,))
class TimingConfig:
    """The intervals of agents, as under `server` in a configuration, with shorter defaults."""

    heartbeat_interval: timedelta = key(
        DURATION, default=timedelta(seconds=3), doc="how often an agent sends a heartbeat"
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION,
        default=None,
        doc="how long a node may be silent; three intervals if left out",
    )
    health_check_interval: timedelta = key(
        DURATION, default=timedelta(seconds=5), doc="how often an agent runs its checks"
    )

    @property
    def timing(self) -> Timing:
        """The intervals as the control plane uses them."""
        return Timing(
            heartbeat_interval=self.heartbeat_interval,
            heartbeat_timeout=self.heartbeat_timeout,
            health_check_interval=self.health_check_interval,
        )
