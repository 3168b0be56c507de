"""Nodes that their provider is about to take back."""

from collections.abc import Iterable

from navarch.core.node import Node, Phase
from navarch.core.notice import NoticeKind
from navarch.fleet.disruption.notice import is_notice
from navarch.fleet.plan import Retire

_CAN_GO = (Phase.BOOTING, Phase.READY, Phase.DRAINING)
"""A machine that nobody has seen yet has no notice; one that is ending needs none."""


def plan_notices(nodes: Iterable[Node]) -> list[Retire]:
    """Return the nodes that have minutes to live: drained at once, replacement or not."""
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
