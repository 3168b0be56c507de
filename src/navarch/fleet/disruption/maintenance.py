"""Nodes whose host is to be worked on."""

from collections.abc import Iterable, Iterator

from navarch.core.disruption import Cause
from navarch.core.health import Health
from navarch.core.node import Node
from navarch.fleet.disruption.candidate import Candidate

CHECK = "maintenance"
"""The check under which agents and providers report planned work on a host."""


def under_maintenance(nodes: Iterable[Node]) -> Iterator[Candidate]:
    """Yield the nodes for which maintenance was announced."""
    for node in nodes:
        for condition in node.conditions:
            if condition.check == CHECK and condition.health is not Health.HEALTHY:
                reason = f"maintenance: {condition.reason}"
                yield Candidate(node=node.id, cause=Cause.MAINTENANCE, reason=reason)
