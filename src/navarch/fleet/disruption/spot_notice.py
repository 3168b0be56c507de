"""Nodes that their provider is about to reclaim."""

from collections.abc import Iterable

from navarch.core.instance import NoticeKind
from navarch.core.node import Node, Phase
from navarch.fleet.disruption.notice import is_notice
from navarch.fleet.plan import Retire

_CAN_GO = (Phase.BOOTING, Phase.READY, Phase.DRAINING)
"""A requested machine has no notice; a terminating one needs none."""


def plan_notices(nodes: Iterable[Node]) -> list[Retire]:
    """Return the nodes with minutes left: drained at once, with or without a replacement."""
    found: list[Retire] = []
    for node in nodes:
        for condition in node.conditions:
            if not is_notice(condition, NoticeKind.RECLAIM):
                continue
            if node.phase in _CAN_GO and node.counts:
                reason = f"reclaimed by its provider: {condition.reason}"
                found.append(Retire(node=node.id, reason=reason, urgent=True))
            break
    return found
