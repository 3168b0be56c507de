"""Is somebody about to take the machine away, or to work on it?"""

from collections.abc import Iterable

from navarch.core.health import CheckResult, Health
from navarch.core.notice import Notice, NoticeKind


def judge_notices(notices: Iterable[Notice]) -> tuple[CheckResult, ...]:
    """Return one result for each kind of notice, so that what no longer stands is taken back.

    Never worse than degraded: nothing is wrong with the machine. What follows from a notice is
    for the control plane to decide.
    """
    standing = list(notices)
    return tuple(_result(kind, [x for x in standing if x.kind is kind]) for kind in NoticeKind)


def _result(kind: NoticeKind, notices: list[Notice]) -> CheckResult:
    if not notices:
        return CheckResult(check=kind.value, health=Health.HEALTHY)
    reason = "; ".join(notice.reason for notice in notices)
    return CheckResult(check=kind.value, health=Health.DEGRADED, reason=reason)
