"""The network between agents and the control plane."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.block import Nested
from navarch.config.kinds import DURATION, DURATION_OR_ZERO, TEXT, Choice, ListOf
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.outage import percentage
from navarch.sim.scenario.words import SHARE, Scope


def _a_share(scope: Scope, target: str) -> Iterator[Fault]:
    if scope is Scope.PERCENTAGE and percentage(target) is None:
        yield Fault(
            at=("target",),
            message=f'target must be a percentage, not "{target}"',
            remedy='write target: "10" for a tenth of the fleet',
        )
    if scope is not Scope.ALL and not target:
        yield Fault(at=("target",), message="target is required", remedy=f"add a {scope}'s name")


@block(rules=(_a_share,))
class Partition:
    """Agents that cannot be heard for a while. Nothing is wrong with their machines."""

    at: timedelta = key(DURATION_OR_ZERO, doc="when")
    duration: timedelta = key(DURATION, doc="for how long")
    scope: Scope = key(Choice(options=Scope), default=Scope.NODE, doc="what `target` names")
    target: str = key(TEXT, default="", doc="who is cut off")


def _order(latency_min: timedelta, latency_max: timedelta) -> Iterator[Fault]:
    if latency_min > latency_max:
        yield Fault(
            at=("latency_min",), message="latency_min is above latency_max", remedy="swap the two"
        )


@block(rules=(_order,))
class NetworkConfig:
    """How messages fare."""

    loss: float = key(
        SHARE, default=0.0, doc="the share of messages that are lost, repeated, or not answered"
    )
    latency_min: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="the quickest")
    latency_max: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="the slowest")
    partitions: tuple[Partition, ...] = key(
        ListOf(each=Nested(cls=Partition)), default=(), doc="who cannot be heard when"
    )
