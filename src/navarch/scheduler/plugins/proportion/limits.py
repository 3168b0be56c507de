"""Checks of queue limits and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.capacity import CapacityVerdict
from navarch.scheduler.model.quantity import GPU, RESOURCE_NAMES, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from navarch.scheduler.plugins.proportion.shares import QueueShare

OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"


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
    what = "limit" if reason == OVER_LIMIT else "quota for non-preemptible work"
    for index, resource in enumerate(RESOURCE_NAMES):
        requested, has, most = request[index], used[index], bound[index]
        if requested and most != UNLIMITED and has + requested > most:
            if resource == "gpu":
                requested, has, most = requested / GPU, has / GPU, most / GPU
            yield CapacityVerdict(
                schedulable=False,
                reason=reason,
                queue=share.name,
                resource=resource,
                requested=requested,
                used=has,
                bound=most,
                message=(
                    f"queue {share.name!r}: {resource} {what} is {most:g}, "
                    f"in use {has:g}, requested {requested:g}"
                ),
            )
