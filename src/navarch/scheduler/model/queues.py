"""The tree of queues."""

from collections.abc import Iterator, Mapping, Sequence

from navarch.scheduler.model.cluster import QueueSpec
from navarch.scheduler.model.quantity import UNLIMITED, Amounts, share_of_gpus

MEGABYTE = 1_000_000
"""Queues state memory in megabytes."""


class Queue:
    """One queue and its place in the tree."""

    __slots__ = (
        "changes",
        "children",
        "created_at",
        "deserved",
        "limit",
        "name",
        "parent",
        "priority",
        "spec",
        "weight",
    )

    def __init__(self, spec: QueueSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.priority = spec.priority
        self.created_at = spec.created_at
        self.changes = 0
        """Changes whenever a job in it, or below it, gains or loses something."""
        self.parent: Queue | None = None
        self.children: list[Queue] = []
        shares = (spec.cpu, spec.memory, spec.gpu)
        self.deserved = _in_units([share.quota for share in shares])
        self.limit = _in_units([share.limit for share in shares])
        self.weight = Amounts(*(max(0.0, share.over_quota_weight) for share in shares))

    @property
    def uid(self) -> str:
        """The queue's name, which identifies it."""
        return self.name

    @property
    def is_leaf(self) -> bool:
        """Whether jobs may be in this queue."""
        return not self.children

    def lineage(self) -> Iterator["Queue"]:
        """Yield this queue, its parent, and so on up to the top."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def __repr__(self) -> str:
        return f"Queue({self.name})"


class QueueTree:
    """All queues, by name and from the top."""

    def __init__(self, specs: Sequence[QueueSpec]) -> None:
        self.by_name: Mapping[str, Queue] = {
            spec.name: Queue(spec) for spec in sorted(specs, key=lambda spec: spec.name)
        }
        self.roots: list[Queue] = []
        for queue in self.by_name.values():
            if queue.spec.parent is None:
                self.roots.append(queue)
            else:
                queue.parent = self.by_name[queue.spec.parent]
                queue.parent.children.append(queue)
        self.leaves = {queue.name for queue in self.by_name.values() if queue.is_leaf}
        """The names of queues that jobs may be in."""
        self._diverging: dict[tuple[str, str], tuple[Queue, Queue]] = {}

    def note_change(self, name: str) -> None:
        """Record that a job of the queue has gained or lost something."""
        queue = self.by_name.get(name)
        while queue is not None:
            queue.changes += 1
            queue = queue.parent

    def leaf(self, name: str) -> Queue | None:
        """Return the leaf queue called `name`, or `None` if it cannot hold jobs."""
        queue = self.by_name.get(name)
        return queue if queue is not None and queue.is_leaf else None

    def diverging(self, left: str, right: str) -> tuple[Queue, Queue]:
        """Return, for two different leaves, the ancestors that are siblings of each other."""
        pair = (left, right)
        if pair not in self._diverging:
            ours = list(self.by_name[left].lineage())[::-1]
            theirs = list(self.by_name[right].lineage())[::-1]
            steps = zip(ours, theirs, strict=False)
            apart = (step for step in steps if step[0] is not step[1])
            self._diverging[pair] = next(apart, (ours[-1], theirs[-1]))
        return self._diverging[pair]


def _in_units(values: Sequence[float]) -> Amounts:
    """Return quotas or limits as given (milli-CPU, MB, GPUs) in the scheduler's units."""
    cpu, memory, gpu = values
    memory_bytes = UNLIMITED if memory == UNLIMITED else memory * MEGABYTE
    return Amounts(cpu, memory_bytes, share_of_gpus(gpu))
