"""The environment of a scenario's fleet: the network, the control plane and agents' intervals."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import DURATION, DURATION_OR_ZERO, TEXT, Choice, Integer, ListOf
from navarch.config.schema import Fault, block, copied, key
from navarch.service.agents import Timing
from navarch.sim.scenario.kinds import SHARE, TargetScope, check_place


def _check_partition(scope: TargetScope, target: str) -> Iterator[Fault]:
    if target:
        yield from check_place(scope, target)
    if scope is not TargetScope.ALL and not target:
        yield Fault("target is required", f"add the name of a {scope}", at=("target",))


@block(rules=(_check_partition,))
class Partition:
    """A period during which agents cannot reach the control plane. Their machines are sound."""

    at: timedelta = key(DURATION_OR_ZERO, "when it begins")
    duration: timedelta = key(DURATION, "how long it lasts")
    scope: TargetScope = key(
        Choice(options=TargetScope), "what `target` names", default=TargetScope.NODE
    )
    target: str = key(TEXT, "the machines that are cut off", default="")


def _check_latency(latency_min: timedelta, latency_max: timedelta) -> Iterator[Fault]:
    if latency_min > latency_max:
        yield Fault("latency_min is above latency_max", "swap the two", at=("latency_min",))


@block(rules=(_check_latency,))
class NetworkConfig:
    """The network between agents and the control plane."""

    loss: float = key(
        SHARE,
        "the share of messages that are lost, sent twice, or whose answer is lost",
        default=0.0,
    )
    latency_min: timedelta = key(
        DURATION_OR_ZERO, "the shortest delay of a message", default=timedelta(0)
    )
    latency_max: timedelta = key(
        DURATION_OR_ZERO, "the longest delay of a message", default=timedelta(0)
    )
    partitions: tuple[Partition, ...] = key(
        ListOf(each=Nested(cls=Partition)), "which agents are cut off, and when", default=()
    )


@block()
class CrashConfig:
    """A crash of the leading control plane, which is then started again."""

    at: timedelta = key(DURATION_OR_ZERO, "when it happens")
    down_for: timedelta = key(DURATION, "time to the restart", default=timedelta(seconds=5))


@block()
class IsolationConfig:
    """A period in which the control plane itself reaches nothing: no agent, no provider, no job."""

    at: timedelta = key(DURATION_OR_ZERO, "when it begins")
    duration: timedelta = key(DURATION, "how long it lasts")


@block()
class ControlPlaneConfig:
    """The control plane: its replicas and the failures injected into it."""

    replicas: int = key(
        Integer(least=1, most=9),
        "the number of replicas: one leads, and a standby takes over if it dies",
        default=1,
    )
    takeover: timedelta = key(DURATION, "how long a takeover takes", default=timedelta(seconds=1))
    crashes: tuple[CrashConfig, ...] = key(
        ListOf(each=Nested(cls=CrashConfig)), "when the leader crashes", default=()
    )
    isolations: tuple[IsolationConfig, ...] = key(
        ListOf(each=Nested(cls=IsolationConfig)),
        "when its own network is down, while agents, clouds and jobs run",
        default=(),
    )
    conflicts: float = key(
        SHARE, "the share of its commits that fail because another writer was faster", default=0.0
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
        "`real` runs the product's agent, in virtual time, with a check that finds the "
        "injected faults; it takes far more CPU than a simulated agent",
        default=Fidelity.SIMULATED,
    )
    share: float = key(SHARE, "the share of machines with `fidelity: real`", default=1.0)

    @property
    def product_share(self) -> float:
        """The share of machines that run the product's agent."""
        return self.share if self.fidelity is Fidelity.REAL else 0.0


def _check_heartbeats(
    heartbeat_interval: timedelta, heartbeat_timeout: timedelta | None
) -> Iterator[Fault]:
    if heartbeat_timeout is not None and heartbeat_timeout <= heartbeat_interval:
        yield Fault(
            "heartbeat_timeout must be longer than heartbeat_interval",
            "three times as long is usual",
            at=("heartbeat_timeout",),
        )


@block(rules=(_check_heartbeats,))
class TimingConfig:
    """The intervals of agents, as under `server` in a configuration, with shorter defaults."""

    heartbeat_interval: timedelta = key(
        DURATION, "how often an agent sends a heartbeat", default=timedelta(seconds=3)
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION, "how long a node may be silent; three intervals if left out", default=None
    )
    health_check_interval: timedelta = key(
        DURATION, "how often an agent runs its checks", default=timedelta(seconds=5)
    )

    @property
    def timing(self) -> Timing:
        """The intervals as the control plane uses them."""
        return copied(Timing, self)
