"""Nodes whose hardware has failed."""

from collections.abc import Iterable, Iterator

from navarch.core.health import Condition, Health
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.plan import Retire
from navarch.health.judgement import explain


def plan_replacements(pool: Pool, nodes: Iterable[Node]) -> Iterator[Retire]:
    """Yield the nodes of `pool` that are broken for good.

    A fatal condition counts at once; any other must have been seen as often in a row as
    the pool asks. What counts is the state, not the moment it changed, so that nothing
    is missed by a restart.
    """
    if not pool.auto_replace:
        return
    for node in nodes:
        if not node.counts or node.phase is not Phase.READY or node.health is not Health.UNHEALTHY:
            continue
        grave = [c for c in node.conditions if _grave(c, pool.unhealthy_after)]
        if grave:
            yield Retire(node=node.id, reason=f"unhealthy: {explain(grave)}")


def _grave(condition: Condition, unhealthy_after: int) -> bool:
    if condition.health is not Health.UNHEALTHY:
        return False
    return condition.fatal or condition.times >= unhealthy_after
