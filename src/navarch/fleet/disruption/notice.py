"""Notices among the things that are held against a node, and who gave them."""

from navarch.core.health import CheckResult, Condition, Health
from navarch.core.node import Node
from navarch.core.notice import Notice, NoticeKind

BY_PROVIDER = "/provider"
"""What a provider announces is kept apart from what the machine's own agent has heard: each takes
back only what it said itself."""


def is_notice(condition: Condition, kind: NoticeKind) -> bool:
    """Return whether `condition` is a notice of that kind, from whomever.

    A check of that name that failed is no notice.
    """
    return condition.health is Health.DEGRADED and condition.check.partition("/")[0] == kind


def announced(node: Node, notices: list[Notice]) -> list[CheckResult]:
    """Return what is new about `node` now that its provider announces `notices` and no others."""
    results = []
    for kind in NoticeKind:
        check = kind + BY_PROVIDER
        before = next((c for c in node.conditions if c.check == check), None)
        reason = "; ".join(notice.reason for notice in notices if notice.kind is kind)
        if reason and (before is None or before.reason != reason):
            results.append(CheckResult(check=check, health=Health.DEGRADED, reason=reason))
        elif not reason and before is not None:
            results.append(CheckResult(check=check, health=Health.HEALTHY))
    return results
