"""Correlated failures: one thing fails, and then another is likely to."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import DURATION_OR_ZERO, TEXT, Choice
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.words import SHARE, ByChance, FailureType


class CorrelationScope(StrEnum):
    """Where the other thing fails."""

    SAME_NODE = "same_node"
    SAME_RACK = "same_rack"
    SAME_ZONE = "same_zone"
    RANDOM = "random"


def _a_trigger(trigger: str) -> Iterator[Fault]:
    if trigger not in list(FailureType) and not trigger.isdecimal():
        yield Fault(
            at=("trigger",),
            message=f'trigger must be a failure type or the number of an XID, not "{trigger}"',
            remedy=f'write "74", or one of {", ".join(FailureType)}',
        )


@block(rules=(_a_trigger,))
class Correlation:
    """What follows from what."""

    name: str = key(TEXT, doc="what to call it")
    trigger: str = key(TEXT, doc="which failure: a type, or the number of an XID in quotes")
    response: FailureType = key(ByChance(options=FailureType), doc="what follows")
    probability: float = key(SHARE, doc="how likely it does")
    delay: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="after how long")
    scope: CorrelationScope = key(
        Choice(options=CorrelationScope), default=CorrelationScope.SAME_NODE, doc="where"
    )
