"""Checks of queue limits and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.capacity import SCHEDULABLE, CapacityVerdict
from navarch.scheduler.model.quantity import GPU, RESOURCE_NAMES, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from navarch.scheduler.plugins.proportion.shares import QueueShare

OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"


def check_limits(lineage: Iterable[QueueShare], request: Amounts) -> CapacityVerdict:
    """Return whether every queue from the leaf up stays within its limit."""
    return next(beyond_limits(lineage, request), SCHEDULABLE)


def check_quotas(lineage: Iterable[QueueShare], request: Amounts) -> CapacityVerdict:
    """Return whether non-preemptible work stays within quota in every queue from the leaf up."""
    return next(beyond_quotas(lineage, request), SCHEDULABLE)


def beyond_limits(lineage: Iterable[QueueShare], request: Amounts) -> Iterator[CapacityVerdict]:
    """Yield every limit that the request exceeds, from the leaf up."""
    for share in lineage:
        yield from _beyond(share, share.allocated, request, share.limit, OVER_LIMIT)


def beyond_quotas(lineage: Iterable[QueueShare], request: Amounts) -> Iterator[CapacityVerdict]:
    """Yield every quota that a non-preemptible request exceeds, from the leaf up."""
    for share in lineage:
        used = share.allocated_non_preemptible
        yield from _beyond(share, used, request, share.deserved, OVER_QUOTA)


def _beyond(
    share: QueueShare, used: Amounts, request: Amounts, bound: Amounts, reason: str
) -> Iterator[CapacityVerdict]:
    for index, name in enumerate(RESOURCE_NAMES):
        requested, limit = request[index], bound[index]
        if requested and limit != UNLIMITED and used[index] + requested > limit:
            yield _reject(share.name, reason, name, (requested, used[index], limit))


def _reject(
    queue: str, reason: str, resource: str, figures: tuple[float, float, float]
) -> CapacityVerdict:
    requested, used, bound = (figure / GPU if resource == "gpu" else figure for figure in figures)
    what = "limit" if reason == OVER_LIMIT else "quota for non-preemptible work"
    return CapacityVerdict(
        schedulable=False,
        reason=reason,
        queue=queue,
        resource=resource,
        requested=requested,
        used=used,
        bound=bound,
        message=(
            f"queue {queue!r}: {resource} {what} is {bound:g}, "
            f"in use {used:g}, requested {requested:g}"
        ),
    )
