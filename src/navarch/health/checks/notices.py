"""Turn the provider's notices of preemption and maintenance into check results."""

from collections.abc import Iterable

from navarch.core.health import CheckResult, Health
from navarch.core.instance import Notice, NoticeKind


def judge_notices(notices: Iterable[Notice]) -> tuple[CheckResult, ...]:
    """Return one result for each kind of notice; without a notice it is healthy.

    A notice is never worse than degraded: nothing is wrong with the machine. The control plane
    decides what follows from it.
    """
    standing = list(notices)
    return tuple(_result(kind, [x for x in standing if x.kind is kind]) for kind in NoticeKind)


def _result(kind: NoticeKind, notices: list[Notice]) -> CheckResult:
    if not notices:
        return CheckResult(check=kind.value, health=Health.HEALTHY)
    reason = "; ".join(notice.reason for notice in notices)
    return CheckResult(check=kind.value, health=Health.DEGRADED, reason=reason)
