"""Nodes on hosts with announced maintenance."""

from collections.abc import Iterable, Iterator

from navarch.core.disruption import Cause
from navarch.core.instance import NoticeKind
from navarch.core.node import Node
from navarch.fleet.disruption.notice import is_notice
from navarch.fleet.plan import Candidate


def under_maintenance(nodes: Iterable[Node]) -> Iterator[Candidate]:
    """Yield the nodes for which maintenance was announced."""
    for node in nodes:
        for condition in node.conditions:
            if is_notice(condition, NoticeKind.MAINTENANCE):
                reason = f"maintenance: {condition.reason}"
                yield Candidate(node=node.id, cause=Cause.MAINTENANCE, reason=reason)
