"""What the workload system must be told about a node."""

from navarch.core.node import Node, NotifiedState, Phase
from navarch.health.conditions import explain

TOLD_OF = frozenset({Phase.READY, Phase.DRAINING})
"""The phases in which work can run on a node, so that somebody has to know of it."""


def notice_due(node: Node) -> NotifiedState | None:
    """Return what the workload system does not know yet about `node`.

    That a node of a pool is not well is no reason by itself to keep work off it: that is something
    done about it, which the pool's remediation decides and the governor lets pass. A bad
    driver on every machine must not close the whole fleet to work at one stroke.
    """
    if node.registered_at is None or node.phase not in TOLD_OF:
        return None
    if node.phase is Phase.DRAINING:
        now_true = NotifiedState.DRAINING
    else:
        governed = node.pool is not None and node.recovery is None
        is_open = node.open_to_work if governed else node.serving
        now_true = NotifiedState.OPEN if is_open else NotifiedState.CORDONED
    return None if now_true is node.told else now_true


def notice_reason(node: Node) -> str:
    """Return why work should keep away from `node`."""
    if node.retiring is not None:
        return node.retiring.reason
    return node.cordoned or explain(node.conditions)
