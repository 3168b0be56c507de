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
    results: list[CheckResult] = []
    for kind in NoticeKind:
        reasons = [notice.reason for notice in standing if notice.kind is kind]
        health = Health.DEGRADED if reasons else Health.HEALTHY
        results.append(CheckResult(check=kind.value, health=health, reason="; ".join(reasons)))
    return tuple(results)
