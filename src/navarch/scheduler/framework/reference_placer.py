"""The placer that defines what is right: every hook is called for every node and job."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from navarch.scheduler.framework.job_queue import JobIndex, JobQueue
from navarch.scheduler.framework.node_table import NodeTable
from navarch.scheduler.model.lazy_tasks import materialise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.placing import PlacementAttempt
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node


class ReferencePlacer:
    """Places one task after another and keeps nothing."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.waiting = JobIndex(state, attrgetter("has_pending"))
        self.interruptible = JobIndex(state, state.is_interruptible)

    def load(self) -> None:
        """Book every task where the snapshot found it."""
        for job in self._state.jobs.values():
            for task in job.tasks.values():
                self._state.load(task)
            for pod_set in job.pod_sets.values():
                pod_set.shapes = ()

    def prepare(self) -> None:
        """Do nothing: nothing is computed ahead."""

    def reset(self) -> None:
        """Do nothing: nothing is kept."""

    def place(
        self, attempt: PlacementAttempt, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Put the tasks on nodes, one after another."""
        return all(attempt.place_task(task, nodes) for task in materialise(tasks))

    def queue(
        self, jobs: Iterable[Job], *, victims: bool = False, depth: int | None = None
    ) -> JobQueue:
        """Return a queue of `jobs`, at most `depth` of the best per leaf."""
        queue = JobQueue(self._state, victims=victims)
        queue.fill(jobs, depth)
        return queue

    def queue_from(
        self, index: JobIndex, wanted: Callable[[Job], bool], *, victims: bool = False
    ) -> JobQueue:
        """Return a queue of the wanted jobs of an index."""
        return self.queue(filter(wanted, index.jobs), victims=victims)

    def node_table(self) -> NodeTable:
        """Return all nodes as arrays."""
        return NodeTable(self._state.node_list)

    def free_gpus(self) -> list[int]:
        """Return what each node has, idle or coming free, in hundredths of whole GPUs."""
        return [node.idle.gpu + node.releasing.gpu for node in self._state.node_list]

    def free_gpu_counts(self) -> Mapping[int, int]:
        """Return how many nodes have each amount of `free_gpus`."""
        return Counter(self.free_gpus())

    def gpus_to_spare(self) -> int:
        """Return all unpromised GPUs, whole, shared or sliced, in hundredths."""
        return sum(node.gpu_to_spare() for node in self._state.nodes.values())

    def rows_with_gpus(self) -> set[int]:
        """Return the nodes on which a GPU, whole, shared or sliced, is idle or coming free."""
        return {n.index for n in self._state.nodes.values() if n.has_available_gpus()}
