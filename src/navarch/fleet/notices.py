"""What the workload system must be told about a node."""

from dataclasses import replace

from navarch.core.health import Health
from navarch.core.node import Node, Phase, Told
from navarch.health.judgement import explain


def notice_due(node: Node, *, dry_run: bool = False) -> Told | None:
    """Return what the workload system does not know yet about `node`.

    Keeping work off a node that is not well is something done about it, which a dry run does not.
    """
    if node.registered_at is None or node.phase not in (Phase.READY, Phase.DRAINING):
        return None
    if node.phase is Phase.DRAINING:
        now_true = Told.DRAINING
    else:
        seen = replace(node, health=Health.HEALTHY) if dry_run else node
        now_true = Told.OPEN if seen.serving else Told.CORDONED
    return None if now_true is node.told else now_true


def notice_reason(node: Node) -> str:
    """Return why work should keep away from `node`."""
    if node.retiring is not None:
        return node.retiring.reason
    return node.cordoned or explain(node.conditions)
