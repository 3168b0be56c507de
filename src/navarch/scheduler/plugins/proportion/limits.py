"""Whether quotas and limits allow a queue to have more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.capacity import SCHEDULABLE, CapacityVerdict
from navarch.scheduler.quantity import GPU, RESOURCE_NAMES, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from navarch.scheduler.plugins.proportion.shares import QueueShare

OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"


def check_limits(lineage: Iterable[QueueShare], request: Amounts) -> CapacityVerdict:
    """Say whether every queue from the leaf up stays within its limit."""
    for share in lineage:
        verdict = _check(share, share.allocated, request, share.limit, OVER_LIMIT)
        if not verdict.schedulable:
            return verdict
    return SCHEDULABLE


def check_quotas(lineage: Iterable[QueueShare], request: Amounts) -> CapacityVerdict:
    """Say whether what cannot be interrupted stays within quota in every queue from the leaf up."""
    for share in lineage:
        used = share.allocated_non_preemptible
        verdict = _check(share, used, request, share.deserved, OVER_QUOTA)
        if not verdict.schedulable:
            return verdict
    return SCHEDULABLE


def _check(
    share: QueueShare, used: Amounts, request: Amounts, bound: Amounts, reason: str
) -> CapacityVerdict:
    for index, name in enumerate(RESOURCE_NAMES):
        asked, limit = request[index], bound[index]
        if asked and limit != UNLIMITED and used[index] + asked > limit:
            return _refuse(share.name, reason, name, (asked, used[index], limit))
    return SCHEDULABLE


def _refuse(
    queue: str, reason: str, resource: str, figures: tuple[float, float, float]
) -> CapacityVerdict:
    asked, used, bound = (figure / GPU if resource == "gpu" else figure for figure in figures)
    what = "limit" if reason == OVER_LIMIT else "quota for work that cannot be interrupted"
    return CapacityVerdict(
        schedulable=False,
        reason=reason,
        queue=queue,
        resource=resource,
        requested=asked,
        used=used,
        bound=bound,
        message=(
            f"queue {queue!r}: {resource} {what} is {bound:g}, "
            f"in use are {used:g}, asked for are {asked:g}"
        ),
    )
