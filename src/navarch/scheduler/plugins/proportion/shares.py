"""The accounts of queues: usage, requests and shares, and the quota that tasks use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.cluster import QueueUsage
from navarch.scheduler.model.quantity import (
    GPU,
    NOTHING,
    RESOURCE_NAMES,
    UNLIMITED,
    Amounts,
    CapacityVerdict,
)
from navarch.scheduler.model.request import mig_slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.quantity import Amounts
    from navarch.scheduler.model.queues import Queue


UNBOUNDED = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)


class QueueShare:
    """One queue's account. Usage is in whole numbers, so undoing a change is exact."""

    __slots__ = (
        "_due",
        "allocated",
        "allocated_non_preemptible",
        "fair_share",
        "queue",
        "request",
        "usage",
    )

    def __init__(self, queue: Queue, usage: QueueUsage) -> None:
        self.queue = queue
        self.usage = Amounts(usage.cpu, usage.memory, usage.gpu)
        self.allocated = NOTHING
        self.allocated_non_preemptible = NOTHING
        self.request = NOTHING
        """What the queue uses plus what its pending tasks request."""
        self.fair_share = NOTHING
        self._due: tuple[Amounts, tuple[Amounts, Amounts]] | None = None
        """The fair share that the cached value of `due` was computed for, and the value."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.name

    @property
    def deserved(self) -> Amounts:
        """The quota of the queue."""
        return self.queue.deserved

    @property
    def limit(self) -> Amounts:
        """The limit of the queue."""
        return self.queue.limit

    def requestable(self, resource: int) -> float:
        """Return the part of the request that the limit allows."""
        limit = self.limit[resource]
        request = self.request[resource]
        return request if limit == UNLIMITED else min(limit, request)

    def allocatable_share(self) -> Amounts:
        """Return what the queue may use before other queues can reclaim from it."""
        bounds = zip(self.limit, self.deserved, self.fair_share, strict=True)
        return Amounts(*(_allocatable(*bound) for bound in bounds))

    def due(self, total: Amounts) -> tuple[Amounts, Amounts]:
        """Return `allocatable_share` twice, the second time with `total` in place of no bound.

        The result is cached: the total of a cluster does not change.
        """
        known = self._due
        if known is None or known[0] is not self.fair_share:
            may = self.allocatable_share()
            parts = zip(may, total, strict=True)
            due = Amounts(*(whole if part == UNLIMITED else part for part, whole in parts))
            known = self._due = (self.fair_share, (may, due))
        return known[1]

    def charge(self, amount: Amounts, *, preemptible: bool) -> None:
        """Add to what the queue uses."""
        self.allocated = self.allocated.plus(amount)
        if not preemptible:
            self.allocated_non_preemptible = self.allocated_non_preemptible.plus(amount)


def _allocatable(limit: float, deserved: float, fair_share: float) -> float:
    if deserved == UNLIMITED:
        return limit
    share = max(deserved, fair_share)
    return share if limit == UNLIMITED else min(limit, share)


class Shares:
    """The accounts of all queues."""

    def __init__(self, session: Session) -> None:
        usage = session.cluster.usage
        self.by_name: dict[str, QueueShare] = {
            name: QueueShare(queue, usage.get(name, QueueUsage()))
            for name, queue in session.queues.by_name.items()
        }
        # A queue with its ancestors; of these, those with a limit and those with a quota.
        self._lineages = {
            name: tuple(self.by_name[ancestor.name] for ancestor in queue.lineage())
            for name, queue in session.queues.by_name.items()
        }
        self._limited = {
            name: tuple(share for share in lineage if share.limit != UNBOUNDED)
            for name, lineage in self._lineages.items()
        }
        self._promised = {
            name: tuple(share for share in lineage if share.deserved != UNBOUNDED)
            for name, lineage in self._lineages.items()
        }
        ready = [spec for spec in session.node_list.specs if spec.health.ready]
        sliced = [spec.mig for spec in ready if spec.mig]
        slices = sum(mig_slices(name) * n for mig in sliced for name, n in mig.items())
        self.total = Amounts(
            sum([spec.cpu_milli for spec in ready]),
            sum([spec.memory_bytes for spec in ready]),
            (sum([spec.gpus for spec in ready]) + slices) * GPU,
        )

    def __getitem__(self, name: str) -> QueueShare:
        return self.by_name[name]

    def lineage(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of a queue and all its ancestors; none for an unknown queue."""
        return self._lineages.get(name, ())

    def limited(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of `lineage` with a limit."""
        return self._limited.get(name, ())

    def promised(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of `lineage` with a quota, which bounds non-preemptible work."""
        return self._promised.get(name, ())


class Charges:
    """The quota used by each task that is, or was, placed.

    Only requests for GPU memory depend on the GPUs of the node, so only those are stored.
    """

    def __init__(self) -> None:
        self._by_task: dict[str, Amounts] = {}

    def enter(self, task: Task, node: Node) -> Amounts:
        """Return the quota that the task uses on a node, and store it if it depends on the node."""
        quota = node.quota_of(task.request)
        if task.request.fixed_quota is None:
            self._by_task[task.uid] = quota
        return quota

    def of(self, task: Task) -> Amounts:
        """Return the quota that the task uses where it is, or was last."""
        return task.request.fixed_quota or self._by_task[task.uid]


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
