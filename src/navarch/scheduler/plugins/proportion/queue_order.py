"""Which queue is served first, given what each has and what its next job would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.quantity import NOTHING, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.plugins.proportion.shares import QueueShare
    from navarch.scheduler.state.job import Job

ZERO_SHARE_FACTOR = 1000
"""How heavily use counts against a queue that is due nothing at all."""


def compare(
    left: QueueShare,
    right: QueueShare,
    requests: tuple[Amounts, Amounts],
    taken: tuple[Amounts, Amounts],
    total: Amounts,
) -> int:
    """Return a negative number if `left` is to be served first; the first difference decides.

    `requests` is what each queue's next job asks for, `taken` what victims would give back.
    """
    left_keys = _keys(left, requests[0], taken[0], total)
    right_keys = _keys(right, requests[1], taken[1], total)
    if left_keys != right_keys:
        return -1 if left_keys < right_keys else 1
    smaller = _smaller_share(left.allocatable_share(), right.allocatable_share())
    if smaller:
        return smaller
    age = (left.queue.created_at, left.name), (right.queue.created_at, right.name)
    return (age[0] > age[1]) - (age[0] < age[1])


Keys = tuple[bool, bool, int, bool, float, float]


def rank(share: QueueShare, request: Amounts, total: Amounts) -> Keys:
    """Return what decides when a queue is served that has lost nothing, unless there is a tie."""
    return _keys(share, request, NOTHING, total)


def _keys(
    share: QueueShare, request: Amounts, taken: Amounts, total: Amounts
) -> Keys:
    allocatable = share.allocatable_share()
    allocated, fair, deserved = share.allocated, share.fair_share, share.deserved
    with_job = allocated.plus(request)
    after = with_job if taken is NOTHING else with_job.minus(taken)
    return (
        allocated.cpu > fair.cpu and allocated.memory > fair.memory and allocated.gpu > fair.gpu,
        not with_job.within(deserved),
        -share.queue.priority,
        (allocatable.cpu == 0 and with_job.cpu > 0)
        or (allocatable.memory == 0 and with_job.memory > 0)
        or (allocatable.gpu == 0 and with_job.gpu > 0),
        dominant_share(after, allocatable, total),
        dominant_share(allocated, allocatable, total),
    )


def dominant_share(allocated: Amounts, allocatable: Amounts, total: Amounts) -> float:
    """Return the largest part that the queue has of what it is due of any resource."""
    return max(
        _part(allocated.cpu, allocatable.cpu, total.cpu),
        _part(allocated.memory, allocatable.memory, total.memory),
        _part(allocated.gpu, allocatable.gpu, total.gpu),
    )


def _part(use: float, share: float, whole: float) -> float:
    due = whole if share == UNLIMITED else share
    return use * ZERO_SHARE_FACTOR if due == 0 else use / due


def _smaller_share(left: Amounts, right: Amounts) -> int:
    if left == right:
        return 0
    if left.within(right):
        return -1
    return 1 if right.within(left) else 0


def allocated_by(jobs: Sequence[Job], quota: dict[str, Amounts]) -> Amounts:
    """Return what the tasks of `jobs` have, each task counted once; `quota` is by task."""
    seen: set[str] = set()
    total = NOTHING
    for job in jobs:
        for task in job.tasks.values():
            if task.uid not in seen and task.placement.counts:
                seen.add(task.uid)
                total = total.plus(quota[task.uid])
    return total
