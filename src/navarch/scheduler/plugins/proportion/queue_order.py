"""Which queue is served first, given what each has and what its next job would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.quantity import NOTHING, UNLIMITED, Amounts
from navarch.scheduler.taken import Taken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

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


def _keys(share: QueueShare, request: Amounts, taken: Amounts, total: Amounts) -> Keys:
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


class Losses:
    """What queues would lose with the jobs that are taken from them, added up job by job.

    Jobs are taken in the order of a list that only grows, so what those before have is kept.
    """

    def __init__(self, quota: Mapping[str, Amounts]) -> None:
        self._quota = quota
        self._known: dict[int, tuple[list[Job], int, Amounts, set[str]]] = {}
        """By list: the list, how much of it was added up, to what, and whose tasks."""

    def forget(self) -> None:
        """Start afresh, since jobs may have gained or lost something."""
        self._known.clear()

    def of(self, jobs: Sequence[Job]) -> Amounts:
        """Return what the tasks of `jobs` have, each task counted once."""
        if not isinstance(jobs, Taken):
            return self._add(NOTHING, jobs, set())
        known = self._known.get(id(jobs.before))
        if known is None:
            known = (jobs.before, 0, NOTHING, set())
        _, done, total, seen = known
        if done < len(jobs.before):
            total = self._add(total, jobs.before[done:], seen)
            known = (jobs.before, len(jobs.before), total, seen)
        self._known[id(jobs.before)] = known
        return self._add(total, [jobs.following], set(), besides=seen)

    def _add(
        self,
        total: Amounts,
        jobs: Sequence[Job],
        seen: set[str],
        *,
        besides: Collection[str] = (),
    ) -> Amounts:
        for job in jobs:
            for uid, task in job.tasks.items():
                if uid not in seen and uid not in besides and task.placement.counts:
                    seen.add(uid)
                    total = total.plus(self._quota[uid])
        return total
