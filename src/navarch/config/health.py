"""Health: when a pool's node is given up."""

from datetime import timedelta

from navarch.config.kinds import BOOLEAN, DURATION, PATH, Integer
from navarch.config.schema import block, key
from navarch.health.conditions import TIMES_MAX


@block()
class HealthConfig:
    """When a node is given up, and whether it is replaced.

    A block that leaves `auto_replace` out replaces, like no block at all: leaving something
    out must not switch a safeguard off.
    """

    unhealthy_after: int = key(
        # Nobody counts further: what is asked for beyond it would never come.
        Integer(least=1, most=TIMES_MAX, example="2"),
        default=2,
        doc="how many unhealthy verdicts in a row, none of them fatal, make a node be replaced",
    )
    silent_after: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="how long a node may be silent, with nothing else wrong, before it is replaced",
    )
    auto_replace: bool = key(
        BOOLEAN, default=True, doc="replace unhealthy nodes without being asked"
    )
    policy: str | None = key(
        PATH,
        default=None,
        doc="a file of rules for these nodes' health events; the server's if left out",
    )
