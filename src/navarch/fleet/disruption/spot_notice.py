"""Nodes that their provider is about to take back."""

from collections.abc import Iterable, Iterator

from navarch.core.node import Node, Phase
from navarch.core.notice import NoticeKind
from navarch.fleet.disruption.notice import is_notice
from navarch.fleet.plan import Retire

_CAN_GO = (Phase.BOOTING, Phase.READY, Phase.DRAINING)
"""A machine that nobody has seen yet has no notice; one that is ending needs none."""


def plan_notices(nodes: Iterable[Node]) -> Iterator[Retire]:
    """Yield the nodes that have minutes to live: drained at once, replacement or not."""
    for node in nodes:
        if not node.counts or node.phase not in _CAN_GO:
            continue
        for condition in node.conditions:
            if is_notice(condition, NoticeKind.RECLAIM):
                yield Retire(
                    node=node.id,
                    reason=f"reclaimed by its provider: {condition.reason}",
                    urgent=True,
                )
                break
