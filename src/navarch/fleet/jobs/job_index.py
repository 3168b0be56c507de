"""The jobs on each node, and whether there is anything to plan about jobs.

A fleet with thousands of running jobs is looked at again whenever a node changes or a job saves its
work. Such a look must not read all jobs and nodes only to find that each job simply runs.
"""

from collections.abc import Collection, Iterable, Mapping

from navarch.core.fleet import Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState, Reservation
from navarch.core.node import Node, Phase
from navarch.fleet.jobs.reservations import reserved_nodes
from navarch.fleet.jobs.swaps import concerns_swaps


class JobIndex:
    """The jobs by node, and the jobs and nodes that a plan may have to change."""

    def __init__(self, fleet: Fleet) -> None:
        self._on: dict[NodeId, dict[JobName, None]] = {}
        self._waiting: dict[JobName, None] = {}
        self._reserved: dict[JobName, Collection[NodeId]] = {}
        """The jobs with a reservation, which ends at some time, and the nodes kept for each."""
        self._left: dict[NodeId, None] = {}
        """The nodes with jobs that are not ready, or no longer there."""
        self._swaps: dict[NodeId, None] = {}
        """The stragglers, and the nodes that were swapped out."""
        for job in fleet.jobs.values():
            self.note_job(None, job, fleet.nodes)
        for node in fleet.nodes.values():
            self.note_node(node.id, node)

    @property
    def is_quiet(self) -> bool:
        """Whether a plan would change nothing.

        No job waits, has a reservation or has lost a node, and no node is to be swapped.
        """
        return not (self._waiting or self._reserved or self._left or self._swaps)

    @property
    def is_complete(self) -> bool:
        """Whether every node of a job is ready."""
        return not self._left

    @property
    def waiting(self) -> Collection[JobName]:
        """The jobs that wait for GPUs."""
        return self._waiting.keys()

    @property
    def reserved(self) -> Collection[NodeId]:
        """The nodes that only one job gets, and that it does not hold yet."""
        return frozenset(name for names in self._reserved.values() for name in names)

    def on_node(self, node: NodeId) -> Collection[JobName]:
        """Return the jobs that hold GPUs of a node."""
        return self._on.get(node, {}).keys()

    def on_any(self, nodes: Iterable[NodeId], jobs: Mapping[JobName, Job]) -> list[Job]:
        """Return those of `jobs` that hold GPUs of some of `nodes`, each once."""
        names = dict.fromkeys(job for node in nodes for job in self.on_node(node))
        return [jobs[name] for name in names]

    def note_job(self, before: Job | None, after: Job | None, nodes: Mapping[NodeId, Node]) -> None:
        """Replace the state `before` of a job by the one `after`, among `nodes`.

        Each is None if the fleet has, or had, no such job.
        """
        if before is not None:
            if after is not None and _held(before) == _held(after):
                return  # it has saved its work
            self._drop(before)
        if after is None:
            return
        if after.state is JobState.WAITING:
            self._waiting[after.name] = None
        if after.reservation is not None:
            self._reserved[after.name] = reserved_nodes([after]).keys()
        for name in dict.fromkeys(after.nodes):
            self._on.setdefault(name, {})[after.name] = None
            self.note_node(name, nodes.get(name))

    def _drop(self, job: Job) -> None:
        self._waiting.pop(job.name, None)
        self._reserved.pop(job.name, None)
        for name in dict.fromkeys(job.nodes):
            jobs = self._on[name]
            del jobs[job.name]
            if not jobs:
                del self._on[name]
                self._left.pop(name, None)

    def note_node(self, name: NodeId, node: Node | None) -> None:
        """Replace the earlier state of a node, if any; None if the fleet has forgotten it."""
        if name in self._on and (node is None or node.phase is not Phase.READY):
            self._left[name] = None
        else:
            self._left.pop(name, None)
        if node is not None and concerns_swaps(node):
            self._swaps[name] = None
        else:
            self._swaps.pop(name, None)


def _held(job: Job) -> tuple[JobState, tuple[NodeId, ...], Reservation | None]:
    return job.state, job.nodes, job.reservation
