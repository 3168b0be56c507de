"""What the workload system must be told about a node."""

from navarch.core.node import Node, Phase, Told
from navarch.health.judgement import explain


def notice_due(node: Node) -> Told | None:
    """Return what the workload system does not know yet about `node`."""
    if node.registered_at is None or node.phase not in (Phase.READY, Phase.DRAINING):
        return None
    if node.phase is Phase.DRAINING:
        now_true = Told.DRAINING
    else:
        now_true = Told.OPEN if node.serving else Told.CORDONED
    return None if now_true is node.told else now_true


def notice_reason(node: Node) -> str:
    """Return why work should keep away from `node`."""
    if node.retiring is not None:
        return node.retiring.reason
    return node.cordoned or explain(node.conditions)
