"""Chaos: failures that come at a rate."""

from collections.abc import Iterator, Mapping

from navarch.config.block import Nested
from navarch.config.kinds import BOOLEAN, ListOf
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.cascading import Cascading
from navarch.sim.scenario.correlation import Correlation
from navarch.sim.scenario.outage import Outage
from navarch.sim.scenario.recovery import Recovery
from navarch.sim.scenario.words import ANY_NUMBER, WEIGHTS, ByChance, FailureType

XIDS = {str(code): 1.0 for code in (13, 31, 32, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95)}
"""What is drawn from where a scenario says nothing: all of them, equally often."""


@block()
class FailureShare:
    """How often one type of failure occurs among the others."""

    type: FailureType = key(ByChance(options=FailureType), doc="what goes wrong")
    weight: float = key(ANY_NUMBER, doc="its share")


def _a_rate(failure_rate: float) -> Iterator[Fault]:
    if failure_rate < 0:
        yield Fault(
            at=("failure_rate",),
            message="chaos.failure_rate must be non-negative",
            remedy="write how many fail per minute among 1000 nodes",
        )


def _numbers(xid_distribution: Mapping[str, float]) -> Iterator[Fault]:
    for code in xid_distribution:
        if not code.isdecimal() or not 0 < int(code) < 100_000:
            yield Fault(
                at=("xid_distribution", code),
                message=f'"{code}" is not the number of an XID',
                remedy="write 79: 10, for example",
            )
    if xid_distribution and not any(xid_distribution.values()):
        yield Fault(
            at=("xid_distribution",), message="no XID has any weight", remedy="write 79: 10"
        )


def _shares(failure_types: tuple[FailureShare, ...]) -> Iterator[Fault]:
    for index, each in enumerate(failure_types):
        if each.weight <= 0:
            yield Fault(
                at=("failure_types", index, "weight"),
                message=f"the weight of {each.type} must be positive",
                remedy="leave the type out if it is not to occur",
            )


@block(rules=(_a_rate, _numbers, _shares))
class Chaos:
    """What goes wrong by itself."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether anything does")
    failure_rate: float = key(
        ANY_NUMBER, default=0.0, doc="how many machines fail per minute and 1000 machines, exactly"
    )
    xid_distribution: Mapping[str, float] = key(
        WEIGHTS, default_factory=dict, doc="which XIDs, by weight; thirteen alike if left out"
    )
    failure_types: tuple[FailureShare, ...] = key(
        ListOf(each=Nested(cls=FailureShare)),
        default=(),
        doc="which failures, by weight; XIDs only if left out",
    )
    cascading: Cascading = key(
        Nested(cls=Cascading), default=Cascading(), doc="how failures spread"
    )
    recovery: Recovery = key(Nested(cls=Recovery), default=Recovery(), doc="how they pass")
    scheduled_outages: tuple[Outage, ...] = key(
        ListOf(each=Nested(cls=Outage)), default=(), doc="what goes out when"
    )
    correlated_failures: tuple[Correlation, ...] = key(
        ListOf(each=Nested(cls=Correlation)), default=(), doc="what follows from what"
    )
