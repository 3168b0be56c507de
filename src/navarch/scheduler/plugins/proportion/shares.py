"""The accounts of queues: usage, requests and shares, and the quota that tasks use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.cluster import QueueUsage
from navarch.scheduler.model.quantity import GPU, NOTHING, UNLIMITED, Amounts
from navarch.scheduler.model.request import mig_slices

if TYPE_CHECKING:
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.quantity import Amounts
    from navarch.scheduler.model.queues import Queue


UNBOUNDED = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)


class QueueShare:
    """One queue's account. Usage is in whole numbers, so undoing a change is exact."""

    __slots__ = (
        "_allocatable_share",
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
        self._allocatable_share: tuple[Amounts, Amounts] | None = None
        """The fair share that the cached value was computed for, and the value."""
        self._due: tuple[Amounts, tuple[Amounts, Amounts]] | None = None
        """The same for `due`."""

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
        known = self._allocatable_share
        if known is None or known[0] is not self.fair_share:
            share = Amounts(*(self._allocatable(resource) for resource in range(3)))
            known = self._allocatable_share = (self.fair_share, share)
        return known[1]

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

    def _allocatable(self, resource: int) -> float:
        limit, deserved = self.limit[resource], self.deserved[resource]
        if deserved == UNLIMITED:
            return limit
        share = max(deserved, self.fair_share[resource])
        return share if limit == UNLIMITED else min(limit, share)

    def charge(self, amount: Amounts, *, preemptible: bool) -> None:
        """Add to what the queue uses."""
        self.allocated = self.allocated.plus(amount)
        if not preemptible:
            self.allocated_non_preemptible = self.allocated_non_preemptible.plus(amount)

    def credit(self, amount: Amounts, *, preemptible: bool) -> None:
        """Subtract from what the queue uses."""
        self.allocated = self.allocated.minus(amount)
        if not preemptible:
            self.allocated_non_preemptible = self.allocated_non_preemptible.minus(amount)


class Shares:
    """The accounts of all queues."""

    def __init__(self, session: Session) -> None:
        self._tree = session.queues
        usage = session.cluster.usage
        self.by_name: dict[str, QueueShare] = {
            name: QueueShare(queue, usage.get(name, QueueUsage()))
            for name, queue in session.queues.by_name.items()
        }
        self._lineages: dict[str, tuple[QueueShare, ...]] = {}
        self._limited: dict[str, tuple[QueueShare, ...]] = {}
        self._promised: dict[str, tuple[QueueShare, ...]] = {}
        self._bounded: dict[str, bool] = {}
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

    def siblings(self, queues: list[Queue]) -> list[QueueShare]:
        """Return the accounts of `queues`."""
        return [self.by_name[queue.name] for queue in queues]

    def lineage(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of a queue and all its ancestors; none for an unknown queue."""
        known = self._lineages.get(name)
        if known is None:
            queue = self._tree.by_name.get(name)
            ancestors = () if queue is None else queue.lineage()
            known = tuple(self.by_name[ancestor.name] for ancestor in ancestors)
            self._lineages[name] = known
        return known

    def limited(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of `lineage` with a limit."""
        known = self._limited.get(name)
        if known is None:
            known = tuple(share for share in self.lineage(name) if share.limit != UNBOUNDED)
            self._limited[name] = known
        return known

    def bounds(self, name: str) -> bool:
        """Return whether a limit or quota bounds non-preemptible work of the queue."""
        known = self._bounded.get(name)
        if known is None:
            known = self._bounded[name] = bool(self.limited(name) or self.promised(name))
        return known

    def promised(self, name: str) -> tuple[QueueShare, ...]:
        """Return the accounts of `lineage` with a quota, which bounds non-preemptible work."""
        known = self._promised.get(name)
        if known is None:
            known = tuple(share for share in self.lineage(name) if share.deserved != UNBOUNDED)
            self._promised[name] = known
        return known


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
