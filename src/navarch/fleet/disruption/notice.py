"""Notices of providers among the conditions of a node."""

from navarch.core.health import CheckResult, Condition, Health
from navarch.core.instance import Notice, NoticeKind
from navarch.core.node import Node

BY_PROVIDER = "/provider"
"""Suffix of notices from the provider. They are separate from notices of the agent: each source
clears only its own."""


def is_notice(condition: Condition, kind: NoticeKind) -> bool:
    """Return whether `condition` is a notice of that kind, from any source.

    A failed check of the same name is no notice.
    """
    return condition.health is Health.DEGRADED and condition.check.partition("/")[0] == kind


def announced(node: Node, notices: list[Notice]) -> list[CheckResult]:
    """Return the results that change on `node` if its provider announces exactly `notices`."""
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
