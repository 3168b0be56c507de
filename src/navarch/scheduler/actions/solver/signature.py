"""Signatures of jobs, so that a job that equals a failed one is not tried again."""

from navarch.scheduler.model.cluster import SubGroupSpec, TaskSpec
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.status import TaskStatus

Size = tuple[float, ...]


class FailedJobs:
    """Jobs that found no solution, one per kind, to compare later ones with.

    Kinds are the same when everything that decides where tasks may go is the same; a later job of
    a kind is skipped unless it is easier: fewer tasks, or smaller ones.
    """

    def __init__(self, *, per_queue: bool) -> None:
        self._per_queue = per_queue
        self._failed: dict[object, list[Size]] = {}
        self._texts: dict[int, str] = {}
        """What sets a kind of tasks apart, by its number."""

    def include(self, job: Job) -> bool:
        """Return whether a job that is no easier than this one has failed."""
        failed = self._failed.get(self._kind(job))
        return failed is not None and not _easier(_sizes(job), failed)

    def add(self, job: Job) -> None:
        """Record that `job` failed; of two failures of a kind, the easier one is kept."""
        kind, sizes = self._kind(job), _sizes(job)
        known = self._failed.get(kind)
        if known is None or _no_larger(sizes, known):
            self._failed[kind] = sizes

    def _kind(self, job: Job) -> object:
        kind = job.remember("signature", lambda: job_kind(job, self._texts))
        return (job.queue if self._per_queue else None, kind)


def job_kind(job: Job, texts: dict[int, str]) -> object:
    """Return a value that is equal for jobs with tasks that fit the same nodes."""
    # One of each kind will do: what sets kinds apart includes all that is looked at here.
    if _is_uniform(job):
        different = [job.root.pod_sets[0].first]
    else:
        by_kind = {task.uid if task.kind is None else task.kind: task for task in _waiting(job)}
        different = list(by_kind.values())
    tasks = sorted({_text(task, texts) for task in different})
    return (job.priority, job.preemptible, _group_kind(job.spec.root), tuple(tasks))


def _text(task: Task, texts: dict[int, str]) -> str:
    if task.kind is None:
        return repr(_task_kind(task.spec))
    known = texts.get(task.kind)
    if known is None:
        known = texts[task.kind] = repr(_task_kind(task.spec))
    return known


def _task_kind(spec: TaskSpec) -> object:
    return (
        sorted(spec.node_selector.items()),
        spec.node_affinity_in,
        sorted(spec.labels.items()),
        [(term.topology_key, sorted(term.labels.items())) for term in spec.affinity],
        [(term.topology_key, sorted(term.labels.items())) for term in spec.anti_affinity],
        spec.tolerations,
        spec.host_ports,
        spec.config_maps,
        spec.legacy_mig,
        spec.claims,
        spec.request.gpu.kind,
        sorted(spec.request.gpu.mig),
    )


def _group_kind(group: SubGroupSpec) -> object:
    pod_sets = tuple((s.name, s.topology) for s in group.pod_sets)
    return (group.topology, pod_sets, tuple(_group_kind(child) for child in group.groups))


def _is_uniform(job: Job) -> bool:
    """Return whether the job consists of equal waiting tasks only."""
    if len(job.pod_sets) != 1 or job.root.groups:
        return False
    pod_set = job.root.pod_sets[0]
    return pod_set.alike and pod_set.untouched(TaskStatus.PENDING)


def _waiting(job: Job) -> list[Task]:
    return [task for task in job.tasks.values() if task.status is TaskStatus.PENDING]


def _sizes(job: Job) -> list[Size]:
    return job.remember("sizes", lambda: _sorted_sizes(job))


def _sorted_sizes(job: Job) -> list[Size]:
    if _is_uniform(job):
        pod_set = job.root.pod_sets[0]
        return [_size(pod_set.first)] * pod_set.size
    return sorted(_size(task) for task in _waiting(job))


def _size(task: Task) -> Size:
    return (*reversed(task.pending_quota), float(task.request.pods))


def _easier(sizes: list[Size], than: list[Size]) -> bool:
    if len(sizes) < len(than):
        return True
    return next((a < b for a, b in zip(sizes, than, strict=False) if a != b), False)


def _no_larger(sizes: list[Size], than: list[Size]) -> bool:
    return len(sizes) <= len(than) and all(
        all(x <= y for x, y in zip(a, b, strict=True)) for a, b in zip(sizes, than, strict=False)
    )
