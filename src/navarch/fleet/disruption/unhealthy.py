"""Nodes whose hardware has failed."""

from collections.abc import Iterable, Iterator

from navarch.core.health import Condition, Health
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.plan import Cordon, Retire
from navarch.health.judgement import explain
from navarch.ports.remediator import Remediator, Remedy, Treatment


class CordonAndReplace:
    """Replaces nodes that are broken for good.

    A fatal condition counts at once; any other must have been seen as often in a row as
    the pool asks. What counts is the state, not the moment it changed, so that nothing is
    missed by a restart.
    """

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Return a replacement for a node that has earned it."""
        if not pool.auto_replace or node.health is not Health.UNHEALTHY:
            return None
        grave = [c for c in node.conditions if _is_grave(c, pool.unhealthy_after)]
        if not grave:
            return None
        return Treatment(remedy=Remedy.REPLACE, reason=f"unhealthy: {explain(grave)}")


class AlertOnly:
    """Leaves every decision to people, who hear of it all the same."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        """Do nothing."""
        del pool, node
        return None


def plan_treatments(
    pool: Pool, nodes: Iterable[Node], remediator: Remediator
) -> Iterator[Cordon | Retire]:
    """Yield what `remediator` wants done about the nodes of `pool` that are not well.

    Only nodes with something held against them are put before it, and only ones in
    service: whatever it answers, no sound node comes to harm.
    """
    for node in nodes:
        if not node.counts or node.phase is not Phase.READY or not node.conditions:
            continue
        treatment = remediator.remediate(pool, node)
        if treatment is None:
            continue
        if treatment.remedy is Remedy.REPLACE:
            yield Retire(node=node.id, reason=treatment.reason)
        elif node.cordoned is None:
            yield Cordon(node=node.id, reason=treatment.reason)


def _is_grave(condition: Condition, unhealthy_after: int) -> bool:
    if condition.health is not Health.UNHEALTHY:
        return False
    return condition.fatal or condition.times >= unhealthy_after
