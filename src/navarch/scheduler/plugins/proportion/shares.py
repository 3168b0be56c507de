"""What each queue has, wants and is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.model.cluster import QueueUsage
from navarch.scheduler.model.quantity import GPU, NOTHING, UNLIMITED, Amounts
from navarch.scheduler.model.request import mig_slices

if TYPE_CHECKING:
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.queues import Queue


UNBOUNDED = Amounts(UNLIMITED, UNLIMITED, UNLIMITED)


class QueueShare:
    """One queue's account. Use is counted in whole numbers, so it can be taken back exactly."""

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
        """What it has and what its pending tasks ask for."""
        self.fair_share = NOTHING
        self._allocatable_share: tuple[Amounts, Amounts] | None = None
        """The fair share it was worked out for, and what it is."""
        self._due: tuple[Amounts, tuple[Amounts, Amounts]] | None = None
        """The same of what it is due."""

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.name

    @property
    def deserved(self) -> Amounts:
        """What the queue is promised."""
        return self.queue.deserved

    @property
    def limit(self) -> Amounts:
        """What the queue may have at most."""
        return self.queue.limit

    def requestable(self, resource: int) -> float:
        """Return how much of what it asks for it could be given."""
        limit = self.limit[resource]
        request = self.request[resource]
        return request if limit == UNLIMITED else min(limit, request)

    def allocatable_share(self) -> Amounts:
        """Return what the queue may use before others can ask for some of it back."""
        known = self._allocatable_share
        if known is None or known[0] is not self.fair_share:
            share = Amounts(*(self._allocatable(resource) for resource in range(3)))
            known = self._allocatable_share = (self.fair_share, share)
        return known[1]

    def due(self, total: Amounts) -> tuple[Amounts, Amounts]:
        """Return the same twice, the second time with `total` where there is no bound.

        The total of a cluster is always the same.
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
        """Add to what the queue has."""
        self.allocated = self.allocated.plus(amount)
        if not preemptible:
            self.allocated_non_preemptible = self.allocated_non_preemptible.plus(amount)

    def credit(self, amount: Amounts, *, preemptible: bool) -> None:
        """Take from what the queue has."""
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
        """Return the account of a queue, of its parent, and so on; none for an unknown queue."""
        known = self._lineages.get(name)
        if known is None:
            queue = self._tree.by_name.get(name)
            ancestors = () if queue is None else queue.lineage()
            known = tuple(self.by_name[ancestor.name] for ancestor in ancestors)
            self._lineages[name] = known
        return known

    def limited(self, name: str) -> tuple[QueueShare, ...]:
        """Return those of `lineage` that a limit bounds."""
        known = self._limited.get(name)
        if known is None:
            known = tuple(share for share in self.lineage(name) if share.limit != UNBOUNDED)
            self._limited[name] = known
        return known

    def bounds(self, name: str) -> bool:
        """Say whether anything bounds what work of a queue may have that cannot be interrupted."""
        known = self._bounded.get(name)
        if known is None:
            known = self._bounded[name] = bool(self.limited(name) or self.promised(name))
        return known

    def promised(self, name: str) -> tuple[QueueShare, ...]:
        """Return those of `lineage` whose quota bounds work that cannot be interrupted."""
        known = self._promised.get(name)
        if known is None:
            known = tuple(share for share in self.lineage(name) if share.deserved != UNBOUNDED)
            self._promised[name] = known
        return known
