"""Nodes that their provider is about to take back."""

from collections.abc import Iterable, Iterator

from navarch.core.health import Health
from navarch.core.node import Node, Phase
from navarch.fleet.plan import Retire

CHECK = "spot_notice"
"""The check under which agents and providers report that a machine will be reclaimed."""


def plan_notices(nodes: Iterable[Node]) -> Iterator[Retire]:
    """Yield the nodes that have minutes to live: drained at once, replacement or not."""
    for node in nodes:
        if not node.counts or node.phase is not Phase.READY:
            continue
        for condition in node.conditions:
            if condition.check == CHECK and condition.health is not Health.HEALTHY:
                yield Retire(
                    node=node.id,
                    reason=f"reclaimed by its provider: {condition.reason}",
                    urgent=True,
                )
                break
