"""The control plane of a scenario: how many of them, and when they die."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.kinds import DURATION, DURATION_OR_ZERO, Integer, ListOf
from navarch.config.nesting import Nested
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.words import SHARE


@block()
class CrashConfig:
    """The process dies where it stands, and is started again."""

    at: timedelta = key(DURATION_OR_ZERO, doc="when")
    down_for: timedelta = key(DURATION, default=timedelta(seconds=5), doc="for how long")


def _one_replica(replicas: int) -> Iterator[Fault]:
    if replicas > 1:
        yield Fault(
            at=("replicas",),
            message=f"{replicas} replicas cannot be simulated: "
            "one control plane runs on one database, there is no replication yet",
            remedy="write replicas: 1; crashes show what a failover would have to bridge",
        )


@block(rules=(_one_replica,))
class PlaneConfig:
    """What may happen to the control plane itself."""

    replicas: int = key(Integer(least=1, most=9), default=1, doc="how many run together")
    crashes: tuple[CrashConfig, ...] = key(
        ListOf(each=Nested(cls=CrashConfig)), default=(), doc="when it dies"
    )
    conflicts: float = key(
        SHARE,
        default=0.0,
        doc="the share of its commits that come too late, somebody being quicker",
    )
