"""Which members of a job are placed, or evicted, together."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter

from navarch.scheduler.framework.hook_runner import HookRunner
from navarch.scheduler.model.job import Job, PodSet, Task
from navarch.scheduler.model.lazy_tasks import LazyTasks
from navarch.scheduler.model.quantity import NOTHING, Amounts
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, TaskStatus

_pending_quota = attrgetter("pending_quota")


def tasks_to_place(session: HookRunner, job: Job, *, real: bool) -> Sequence[Task]:
    """Return the tasks of `job` that are placed next: what its gangs lack, or else one more."""
    version = job.origin.version
    known = job.next_tasks
    if known is None or known[0] != version:
        known = (version, None, None)
    found = known[1] if real else known[2]
    if found is None:
        found = _tasks_to_place(session, job, real=real)
        if not version:
            job.next_tasks = (version, found, found)  # no task has moved yet, simulated or not
        elif real:
            job.next_tasks = (version, found, known[2])
        else:
            virtual = any(task.placement.virtual for task in found)
            job.next_tasks = (version, known[1] if virtual else found, found)
    return found


def request_to_place(session: HookRunner, job: Job) -> Amounts:
    """Return the quota that the tasks to place next would use."""
    known = job.requested_quota
    if known is None or known[0] != job.origin.version:
        amount = requested_quota(tasks_to_place(session, job, real=False))
        known = job.requested_quota = (job.origin.version, amount)
    return known[1]


def requested_quota(tasks: Sequence[Task]) -> Amounts:
    """Return what queues would be charged for tasks that have no place yet."""
    if isinstance(tasks, LazyTasks):
        return tasks.requested_quota
    if len(tasks) == 1:
        return tasks[0].pending_quota
    total = NOTHING
    # Adding up counts of equal quotas is cheaper than adding up amounts.
    for quota, count in Counter(map(_pending_quota, tasks)).items():
        total = total.plus(quota.times(count))
    return total


def tasks_to_evict(session: HookRunner, job: Job) -> tuple[list[Task], bool]:
    """Return the smallest set of tasks that may be taken from `job`, and whether more are left.

    A job with members to spare loses one; otherwise its gang goes as a whole.
    """
    if job.size == 1:
        return job.tasks_in(ACTIVE_ALLOCATED_MASK), False
    pod_sets = session.sort_pod_sets(list(job.pod_sets.values()))[::-1]
    active = [s for s in pod_sets if s.count(ACTIVE_ALLOCATED_MASK)]
    spare = next((s for s in active if s.active_allocated > s.min_available), None)
    if spare is not None:
        unit = _last_first(session, spare)[:1]
    else:
        unit = [task for pod_set in active for task in _last_first(session, pod_set)]
    return unit, job.count(ACTIVE_ALLOCATED_MASK) > len(unit)


def _tasks_to_place(session: HookRunner, job: Job, *, real: bool) -> Sequence[Task]:
    if len(job.pod_sets) == 1:
        (pod_set,) = job.pod_sets.values()
        return _tasks_of_only_set(session, pod_set, real=real)
    waiting = [
        (pod_set, tasks)
        for pod_set in session.sort_pod_sets(list(job.pod_sets.values()))
        if (tasks := [task for task in pod_set.tasks if task.is_candidate(real=real)])
    ]
    lacking = sum(pod_set.below_minimum for pod_set, _ in waiting)
    chosen: list[Task] = []
    for pod_set, tasks in waiting[: max(1, lacking)]:
        missing = max(1, pod_set.min_available - pod_set.active_allocated)
        chosen.extend(session.sort_tasks(tasks)[:missing])
    return chosen


def _tasks_of_only_set(session: HookRunner, pod_set: PodSet, *, real: bool) -> Sequence[Task]:
    if pod_set.untouched(TaskStatus.PENDING):
        if pod_set.alike and (pod_set.size == 1 or session.orders_tasks_by_kind):
            return LazyTasks(pod_set, min(max(1, pod_set.min_available), pod_set.size))
        job, all_next = pod_set.owner, pod_set.min_available >= pod_set.size
        if pod_set.shapes and all_next and session.orders_tasks_by_kind and job is not None:
            # All tasks are next, in an order that follows from their kinds and names.
            return LazyTasks(
                pod_set,
                pod_set.size,
                pod_set.shapes,
                lambda shape: session.order_of_task(shape.specs[0], job),
            )
        tasks = pod_set.tasks
    else:
        tasks = [task for task in pod_set.tasks if task.is_candidate(real=real)]
    if len(tasks) <= 1:
        return tasks
    missing = max(1, pod_set.min_available - pod_set.active_allocated)
    if pod_set.alike and session.orders_tasks_by_kind:
        return tasks[:missing]
    return session.sort_tasks(tasks)[:missing]


def _last_first(session: HookRunner, pod_set: PodSet) -> list[Task]:
    running = [task for task in pod_set.tasks if task.status & ACTIVE_ALLOCATED_MASK]
    return session.sort_tasks(running)[::-1]
