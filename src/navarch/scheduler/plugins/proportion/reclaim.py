"""Checks whether a queue may reclaim what a simulated scenario takes from others."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

from navarch.scheduler.framework.gang import requested_quota
from navarch.scheduler.model.quantity import UNLIMITED, Amounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.queues import QueueTree
    from navarch.scheduler.model.scenario import Scenario, Victim
    from navarch.scheduler.plugins.proportion.shares import Charges, QueueShare, Shares


class ReclaimCheck:
    """The check of one scenario, based on what queues used before the search for victims."""

    def __init__(
        self,
        shares: Shares,
        tree: QueueTree,
        *,
        allocated: Mapping[str, Amounts],
        allocated_non_preemptible: Mapping[str, Amounts],
        charges: Charges,
        count_moved: bool,
        multiplier: float,
    ) -> None:
        self._shares = shares
        self._tree = tree
        self._allocated = allocated
        self._fixed = allocated_non_preemptible
        self._charges = charges
        self._count_moved = count_moved
        self._multiplier = multiplier
        self._remaining: dict[str, Amounts] = {}

    def allows(self, scenario: Scenario) -> bool:
        """Return whether every victim's queue can spare its loss and the job's queue stays fair."""
        job = scenario.preemptor
        request = requested_quota(list(job.tasks.values()))
        involved = request
        for victim in scenario.victims.values():
            for block in self._blocks(victim):
                if not self._may_take(job, request, victim.job.queue):
                    return False
                self._take(victim.job.queue, block)
                involved = involved.plus(block)
        if not self._remaining:
            return True
        return self._stays_balanced(job, request, involved)

    def _blocks(self, victim: Victim) -> Iterator[Amounts]:
        """Yield what is taken: tasks above the minimum one by one, the minimum of a gang as one."""
        lost = [t for t in victim.tasks if self._count_moved or not t.placement.counts]
        core: list[Task] = []
        for pod_set in victim.job.pod_sets.values():
            tasks = [task for task in lost if task.spec.sub_group == pod_set.name]
            core += tasks[: pod_set.min_available]
            for task in tasks[pod_set.min_available :]:
                yield self._charges.of(task)
        if core:
            yield reduce(Amounts.plus, map(self._charges.of, core))

    def _may_take(self, job: Job, request: Amounts, victim_queue: str) -> bool:
        """Return whether the victim's side can spare more, where the two queues diverge."""
        ours, theirs = self._tree.diverging(job.queue, victim_queue)
        reclaimer, victim = self._shares[ours.name], self._shares[theirs.name]
        remaining = self._has(victim)
        if not remaining.within(victim.allocatable_share()):
            return True
        wanted = self._allocated[reclaimer.name].plus(request)
        return wanted.within(reclaimer.deserved) and not remaining.within(victim.deserved)

    def _take(self, queue: str, block: Amounts) -> None:
        for share in self._shares.lineage(queue):
            self._remaining[share.name] = self._has(share).minus(block)

    def _has(self, share: QueueShare) -> Amounts:
        return self._remaining.get(share.name, self._allocated[share.name])

    def _stays_balanced(self, job: Job, request: Amounts, involved: Amounts) -> bool:
        """Return whether no ancestor of the job ends more saturated than a queue that lost."""
        resources = [index for index in range(3) if involved[index] > 0]
        for share in self._shares.lineage(job.queue):
            has = self._has(share).plus(request)
            parent = share.queue.parent
            for sibling in self._tree.roots if parent is None else parent.children:
                lost = sibling.name != share.name and sibling.name in self._remaining
                if lost and self._exceeds(share, has, self._shares[sibling.name], resources):
                    return False
        return job.preemptible or all(
            self._fixed[share.name].plus(request).within(share.deserved)
            for share in self._shares.lineage(job.queue)
        )

    def _exceeds(
        self, share: QueueShare, has: Amounts, other: QueueShare, resources: list[int]
    ) -> bool:
        left = self._has(other)
        for index in resources:
            ours = saturation(has[index], share.fair_share[index])
            theirs = saturation(left[index], other.fair_share[index])
            if ours > 1 and other.fair_share[index] > 0 and ours * self._multiplier >= theirs:
                return True
        return False


def saturation(allocated: float, fair_share: float) -> float:
    """Return what a queue uses relative to its fair share."""
    if fair_share == UNLIMITED:
        return 0.0
    if fair_share == 0:
        return math.inf if allocated > 0 else 0.0
    return allocated / fair_share
