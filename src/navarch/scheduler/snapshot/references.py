"""Checks across the entries of a cluster: unique names, and references to existing names."""

from collections.abc import Iterable, Mapping
from typing import Final

from navarch.scheduler.model.status import ALLOCATED_MASK, STATUS_BY_TITLE, TaskStatus
from navarch.scheduler.snapshot.cluster_entries import ClusterEntry, QueueEntry
from navarch.scheduler.snapshot.document import given, join, reject
from navarch.scheduler.snapshot.job_entries import JobEntry, TaskEntry

ON_NODE: Final = ALLOCATED_MASK | TaskStatus.RELEASING.value | TaskStatus.PIPELINED.value


def check_references(cluster: ClusterEntry, path: str, *, keep_lost_jobs: bool) -> None:
    """Check names and references; `keep_lost_jobs` permits jobs in queues that cannot have jobs.

    Raises:
        InvalidError: A name occurs twice, or a reference has no target; begins with the path.
    """
    _check_unique(join(path, "nodes"), (node.name for node in cluster.nodes))
    _check_unique(join(path, "topologies"), (one.name for one in cluster.topologies))
    claims = (f"{claim.namespace}/{claim.name}" for claim in cluster.resource_claims)
    _check_unique(join(path, "resource_claims"), claims)
    _check_queues(join(path, "queues"), cluster.queues)
    queues = {queue.name for queue in cluster.queues}
    nodes = {node.name for node in cluster.nodes}
    for index, piece in enumerate(cluster.resource_slices):
        if piece.node is not None and not piece.all_nodes and piece.node not in nodes:
            at = f"{join(path, 'resource_slices')}[{index}].node"
            reject(at, f"no node is called {piece.node!r}")
    for name in given(cluster.usage) or ():
        if name not in queues:
            reject(f"{join(path, 'usage')}.{name}", f"no queue is called {name!r}")
    _JobCheck(cluster, path, keep_lost_jobs=keep_lost_jobs).run()


def _check_unique(path: str, names: Iterable[str], field: str = "name") -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            reject(f"{path}[{index}].{field}", f"{name!r} is there twice")
        seen.add(name)


def _check_queues(path: str, queues: tuple[QueueEntry, ...]) -> None:
    _check_unique(path, (queue.name for queue in queues))
    parents = {queue.name: queue.parent for queue in queues}
    for index, queue in enumerate(queues):
        at = f"{path}[{index}]"
        if queue.parent is not None and queue.parent not in parents:
            reject(f"{at}.parent", f"no queue is called {queue.parent!r}")
        _check_cycle(f"{at}.parent", queue.name, parents)
        for resource in ("cpu", "memory", "gpu"):
            share = getattr(queue.resources, resource)
            for field in ("quota", "limit", "over_quota_weight"):
                value = getattr(share, field)
                if not (value >= 0 or value == -1):
                    why = f"must be at least 0, or -1 for unlimited, not {value:g}"
                    reject(f"{at}.resources.{resource}.{field}", why)


def _check_cycle(path: str, name: str, parents: Mapping[str, str | None]) -> None:
    """Reject a queue that is its own ancestor; queues below the cycle are not the cause."""
    way = [name]
    parent = parents[name]
    while parent is not None and parent not in way:
        way.append(parent)
        parent = parents.get(parent)
    if parent == name:
        reject(path, f"queues form a cycle: {' > '.join([*way, name])}")


class _JobCheck:
    """The checks of jobs and tasks."""

    def __init__(self, cluster: ClusterEntry, path: str, *, keep_lost_jobs: bool) -> None:
        self._jobs = cluster.jobs
        self._path = join(path, "jobs")
        self._nodes = {node.name for node in cluster.nodes}
        self._queues = {queue.name for queue in cluster.queues}
        self._inner = {queue.parent for queue in cluster.queues}
        self._keep_lost = keep_lost_jobs
        self._uids: set[str] = set()

    def run(self) -> None:
        _check_unique(self._path, (job.name for job in self._jobs))
        for index, job in enumerate(self._jobs):
            path = f"{self._path}[{index}]"
            self._check_queue(f"{path}.queue", job.queue)
            pod_sets = _pod_set_names(job, path)
            for number, task in enumerate(job.tasks):
                self._check_task(task, pod_sets, f"{path}.tasks[{number}]")

    def _check_queue(self, path: str, name: str) -> None:
        if self._keep_lost:
            return
        if name not in self._queues:
            reject(path, f"no queue is called {name!r}")
        if name in self._inner:
            reject(path, f"queue {name!r} has child queues, so it cannot have jobs")

    def _check_task(self, task: TaskEntry, pod_sets: set[str], path: str) -> None:
        if task.uid in self._uids:
            reject(f"{path}.uid", f"{task.uid!r} is there twice")
        self._uids.add(task.uid)
        status = STATUS_BY_TITLE.get(task.status)
        if status is None:
            reject(f"{path}.status", f"{task.status!r} is not one of {', '.join(STATUS_BY_TITLE)}")
        if task.sub_group not in pod_sets:
            reject(f"{path}.sub_group", f"the job has no pod set {task.sub_group!r}")
        if task.node is None:
            if status & ON_NODE:
                reject(path, f"a task that is {status.title} must be on a node")
        # Cases may name an unknown node for a task that does not run.
        elif task.node not in self._nodes and (status & ON_NODE or not self._keep_lost):
            reject(f"{path}.node", f"no node is called {task.node!r}")


def _pod_set_names(job: JobEntry, path: str) -> set[str]:
    names = [pod_set.name for pod_set in job.to_root().all_pod_sets()]
    if len(names) != len(set(names)):
        reject(f"{path}.root_sub_group_set", "two pod sets have the same name")
    return set(names)
