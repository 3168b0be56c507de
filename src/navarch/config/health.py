"""Health: when a pool's node is given up."""

from navarch.config.kinds import BOOLEAN, COUNT, PATH
from navarch.config.schema import block, key


@block()
class HealthConfig:
    """When a node is given up, and whether it is replaced.

    A block that leaves `auto_replace` out replaces, like no block at all: leaving something
    out must not switch a safeguard off.
    """

    unhealthy_after: int = key(
        COUNT,
        default=2,
        doc="how many unhealthy verdicts in a row, none of them fatal, make a node be replaced",
    )
    auto_replace: bool = key(
        BOOLEAN, default=True, doc="replace unhealthy nodes without being asked"
    )
    policy: str | None = key(
        PATH,
        default=None,
        doc="a file of rules for these nodes' health events; the server's if left out",
    )
