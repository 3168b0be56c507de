"""The order of queues, given what each uses and what its next job requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.framework.job_queue import VictimList
from navarch.scheduler.model.quantity import NOTHING, UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from navarch.scheduler.model.job import Job
    from navarch.scheduler.plugins.proportion.shares import Charges, QueueShare

ZERO_SHARE_FACTOR = 1000
"""The weight of usage for a queue with no share at all."""


def compare(
    left: QueueShare,
    right: QueueShare,
    requests: tuple[Amounts, Amounts],
    taken: tuple[Amounts, Amounts],
    total: Amounts,
) -> int:
    """Return a negative number if `left` is served first; the first difference decides.

    `requests` is the request of each queue's next job, `taken` what its victims would release.
    """
    left_keys = rank(left, requests[0], taken[0], total)
    right_keys = rank(right, requests[1], taken[1], total)
    if left_keys != right_keys:
        return -1 if left_keys < right_keys else 1
    left_share, right_share = left.allocatable_share(), right.allocatable_share()
    if left_share != right_share:
        if left_share.within(right_share):
            return -1
        if right_share.within(left_share):
            return 1
    age = (left.queue.created_at, left.name), (right.queue.created_at, right.name)
    return (age[0] > age[1]) - (age[0] < age[1])


Keys = tuple[bool, bool, int, bool, float, float]


def rank(
    share: QueueShare,
    request: Amounts,
    taken: Amounts,
    total: Amounts,
    *,
    has: Amounts | None = None,
) -> Keys:
    """Return the sort key of a queue that loses `taken`.

    `has` replaces what the queue uses.
    """
    # Called for every placed job, so the loop over resources is unrolled.
    queue = share.queue
    has_cpu, has_memory, has_gpu = share.allocated if has is None else has
    fair_cpu, fair_memory, fair_gpu = share.fair_share
    cpu, memory, gpu = has_cpu + request[0], has_memory + request[1], has_gpu + request[2]
    quota_cpu, quota_memory, quota_gpu = queue.deserved
    (may_cpu, may_memory, may_gpu), due = share.due(total)
    having = _served(has_cpu, has_memory, has_gpu, due)
    if taken is not NOTHING:
        wanting = _served(cpu - taken[0], memory - taken[1], gpu - taken[2], due)
    elif request is NOTHING:
        wanting = having
    else:
        wanting = _served(cpu, memory, gpu, due)
    return (
        has_cpu > fair_cpu and has_memory > fair_memory and has_gpu > fair_gpu,
        not (
            (quota_cpu == UNLIMITED or cpu <= quota_cpu)
            and (quota_memory == UNLIMITED or memory <= quota_memory)
            and (quota_gpu == UNLIMITED or gpu <= quota_gpu)
        ),
        -queue.priority,
        (may_cpu == 0 and cpu > 0)
        or (may_memory == 0 and memory > 0)
        or (may_gpu == 0 and gpu > 0),
        wanting,
        having,
    )


def _served(cpu: float, memory: float, gpu: float, due: Amounts) -> float:
    """Return the queue's dominant share: the largest of usage relative to what it is due."""
    due_cpu, due_memory, due_gpu = due
    return max(
        cpu / due_cpu if due_cpu else cpu * ZERO_SHARE_FACTOR,
        memory / due_memory if due_memory else memory * ZERO_SHARE_FACTOR,
        gpu / due_gpu if due_gpu else gpu * ZERO_SHARE_FACTOR,
    )


class Losses:
    """What queues would lose with their victims, summed job by job.

    Victims come from a list that only grows, so the sum over its beginning is cached.
    """

    def __init__(self, charges: Charges) -> None:
        self._charges = charges
        self._known: dict[int, tuple[list[Job], int, Amounts, set[str]]] = {}
        """By id of the list: the list, how many jobs are summed, the sum, and their tasks."""

    def forget(self) -> None:
        """Drop the cache after placements have changed."""
        self._known.clear()

    def of(self, jobs: Sequence[Job]) -> Amounts:
        """Return the quota that the tasks of `jobs` use, each task counted once."""
        if not isinstance(jobs, VictimList):
            return self._add(NOTHING, jobs, set())
        if not jobs.before:
            return self._add(NOTHING, [jobs.following], set())
        unknown = (jobs.before, 0, NOTHING, set[str]())
        _, done, total, seen = self._known.get(id(jobs.before), unknown)
        if done < len(jobs.before):
            total = self._add(total, jobs.before[done:], seen)
            self._known[id(jobs.before)] = (jobs.before, len(jobs.before), total, seen)
        return self._add(total, [jobs.following], set(), besides=seen)

    def _add(
        self,
        total: Amounts,
        jobs: Sequence[Job],
        seen: set[str],
        *,
        besides: Collection[str] = (),
    ) -> Amounts:
        """Return the total with the tasks that were not seen, and add these to `seen`."""
        for job in jobs:
            for uid, task in job.tasks.items():
                if uid not in seen and uid not in besides and task.placement.counts:
                    seen.add(uid)
                    total = total.plus(self._charges.of(task))
        return total
