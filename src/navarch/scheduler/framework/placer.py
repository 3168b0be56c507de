"""The seam between the rules of a session and the code that makes them fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.job_queue import JobIndex, JobQueue
    from navarch.scheduler.framework.node_table import NodeTable
    from navarch.scheduler.framework.placing import PlacementAttempt
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node


class Placer(Protocol):
    """Finds places, serving orders and free GPUs.

    A session chooses its placer once, when it opens. All placers decide the same and differ only
    in cost: `ReferencePlacer` calls every hook for every node, `VectorPlacer` works with arrays
    and keeps results, `CheckedPlacer` runs both and compares.
    """

    @property
    def waiting(self) -> JobIndex:
        """Jobs with a pending task."""
        ...

    @property
    def interruptible(self) -> JobIndex:
        """Jobs that could make room for others."""
        ...

    def load(self) -> None:
        """Book every task where the snapshot found it."""
        ...

    def prepare(self) -> None:
        """Compute what is needed once all plugins have registered."""
        ...

    def reset(self) -> None:
        """Drop everything that was derived from hooks: one of them has changed."""
        ...

    def place(
        self, attempt: PlacementAttempt, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Put the tasks of one pod set on some of `nodes`; return whether it worked.

        A failed call leaves what it has placed so far to the caller to roll back.
        """
        ...

    def queue(
        self, jobs: Iterable[Job], *, victims: bool = False, depth: int | None = None
    ) -> JobQueue:
        """Return a queue of `jobs`, at most `depth` of the best per leaf."""
        ...

    def queue_from(
        self, index: JobIndex, wanted: Callable[[Job], bool], *, victims: bool = False
    ) -> JobQueue:
        """Return a queue of the wanted jobs of an index."""
        ...

    def node_table(self) -> NodeTable:
        """Return all nodes as arrays."""
        ...

    def free_gpus(self) -> list[int]:
        """Return what each node has, idle or coming free, in hundredths of whole GPUs."""
        ...

    def free_gpu_counts(self) -> Mapping[int, int]:
        """Return how many of the nodes with GPUs have each amount of `free_gpus`."""
        ...

    def gpus_to_spare(self) -> int:
        """Return all unpromised GPUs, whole, shared or sliced, in hundredths."""
        ...

    def rows_with_gpus(self) -> set[int]:
        """Return the nodes on which a GPU, whole, shared or sliced, is idle or coming free."""
        ...
