"""Comparison of the final session with the expectations of a case.

Stricter than the suite the cases come from: the tasks on each shared GPU are compared, and the
decisions must account for exactly the changes of every task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.framework.decision import Bind, Decision, Evict, Nominate, Withdraw
from navarch.scheduler.model.quantity import GPU, gpus
from navarch.scheduler.model.request import GpuKind
from navarch.scheduler.model.status import ALLOCATED_MASK, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node
    from navarch.testing.scheduler_conformance.case import Case, Expectation

CLOSE = 1e-6

Step = Bind | Evict | Nominate | Withdraw


def mismatches(case: Case, session: Session, errors: dict[str, str]) -> Iterator[str]:
    """Yield every difference between `session` and the expectations of the case."""
    for name, expected in case.jobs.items():
        job = session.jobs.get(name)
        if job is None:
            yield f"job {name}: not in the session"
        else:
            yield from _job(session, job, expected, errors.get(name, ""))
    for uid, expected in case.tasks.items():
        task = _find(session, uid)
        # Some cases have expectations for tasks that they do not contain.
        if task is not None:
            yield from _tasks(session, [task], expected, f"task {uid}")
            yield from _started(session, task.job, expected, f"task {uid}")
    yield from _nodes(case, session)
    yield from _sharing(case, session)


def unexplained(session: Session, decisions: Sequence[Decision]) -> Iterator[str]:
    """Yield every task whose state does not follow from the decisions about it.

    A missing decision or a repeated one is an error, like a wrong one.
    """
    about: dict[str, list[Step]] = {}
    for decision in decisions:
        if isinstance(decision, Step):
            about.setdefault(decision.task, []).append(decision)
    for job in session.jobs.values():
        for task in job.tasks.values():
            status, node = _follow(task, about.get(task.uid, ()))
            if status is not task.status or (about.get(task.uid) and node != task.node):
                made = [type(decision).__name__ for decision in about.get(task.uid, ())]
                yield (
                    f"task {task.uid}: {task.spec.status.title} and {made or 'no decision'} "
                    f"do not make {task.status.title} on {task.node}"
                )


def _follow(task: Task, decisions: Sequence[Step]) -> tuple[TaskStatus | None, str | None]:
    """Return status and node after the decisions; no status if one of them is impossible."""
    status: TaskStatus = task.spec.status
    node = before = task.spec.node
    for decision in decisions:
        match decision:
            case Bind() if status is TaskStatus.PENDING:
                status, node = TaskStatus.BINDING, decision.node
            case Evict() if status & ALLOCATED_MASK and decision.node == node:
                status, before = TaskStatus.RELEASING, node
            case Nominate() if status in (TaskStatus.PENDING, TaskStatus.RELEASING):
                status, node = TaskStatus.PIPELINED, decision.node
            case Withdraw() if status is TaskStatus.PIPELINED and decision.node == node:
                status = TaskStatus.PENDING if before is None else TaskStatus.RELEASING
                node = before
            case _:
                return None, node
    return status, node


def _find(session: Session, uid: str) -> Task | None:
    for job in session.jobs.values():
        if uid in job.tasks:
            return job.tasks[uid]
    return None


def _job(session: Session, job: Job, expected: Expectation, error: str) -> Iterator[str]:
    what = f"job {job.name}"
    yield from _tasks(session, list(job.tasks.values()), expected, what)
    yield from _started(session, job, expected, what)
    if expected.error_message is not None and error != expected.error_message:
        yield f"{what}: reason is {error!r}, expected {expected.error_message!r}"


def _tasks(
    session: Session, tasks: Sequence[Task], expected: Expectation, what: str
) -> Iterator[str]:
    for task in tasks:
        if task.status is not expected.status:
            yield f"{what}: {task.uid} is {task.status.title}, expected {expected.status.title}"
        node = task.node or task.spec.node
        if expected.node is not None and node != expected.node:
            yield f"{what}: {task.uid} is on {node}, expected {expected.node}"
    sums = {
        "GPUs": (sum(_required_gpus(task) for task in tasks), expected.gpus_required),
        "milli-CPU": (sum(t.request.cpu_milli for t in tasks), expected.milli_cpu_required),
        "memory": (sum(t.request.memory_bytes for t in tasks), expected.memory_required),
    }
    if expected.status & ALLOCATED_MASK:
        accepted = sum(_accepted_gpus(session, task) for task in tasks)
        sums["accepted GPUs"] = (accepted, expected.gpus_accepted)
    for name, (actual, wanted) in sums.items():
        if wanted is None or (wanted == 0 and name != "GPUs"):
            continue
        if abs(actual - wanted) > CLOSE:
            yield f"{what}: {name} {actual:g}, expected {wanted:g}"


def _required_gpus(task: Task) -> float:
    """Return the GPUs of a request by count or fraction; other forms do not count here."""
    gpu = task.request.gpu
    return gpus(gpu.whole or gpu.portion * gpu.devices)


def _accepted_gpus(session: Session, task: Task) -> float:
    if task.node is None or task.request.gpu.kind is GpuKind.MIG:
        return 0.0
    return gpus(session.nodes[task.node].quota_of(task.request).gpu)


def _started(session: Session, job: Job, expected: Expectation, what: str) -> Iterator[str]:
    if not expected.status & ALLOCATED_MASK:
        return
    if job.last_start is None:
        yield f"{what}: has no start time"
    elif expected.last_start_older_than is not None:
        age = session.now - job.last_start
        if age < expected.last_start_older_than:
            yield f"{what}: started {age} ago, expected over {expected.last_start_older_than}"


def _nodes(case: Case, session: Session) -> Iterator[str]:
    for name, expected in case.nodes.items():
        node = session.nodes[name]
        idle, releasing = gpus(node.idle.gpu), gpus(node.releasing.gpu)
        if abs(idle - expected.idle_gpus) > CLOSE:
            yield f"node {name}: {idle:g} GPUs idle, expected {expected.idle_gpus:g}"
        if abs(releasing - expected.releasing_gpus) > CLOSE:
            yield f"node {name}: {releasing:g} GPUs releasing, expected {expected.releasing_gpus:g}"


def _sharing(case: Case, session: Session) -> Iterator[str]:
    """Yield pairs of tasks that share a GPU but should not, or the other way round.

    Only tasks that hold a GPU are compared: a nominated task gets its GPU when it starts.
    """
    expected = _expected_groups(case, session)
    placed = [
        task
        for job in session.jobs.values()
        for task in job.tasks.values()
        if task.uid in expected and task.status & ALLOCATED_MASK and task.request.gpu.shared
    ]
    void = {name for name in session.nodes if _is_void(case, session.nodes[name], placed, expected)}
    for index, left in enumerate(placed):
        for right in placed[index + 1 :]:
            if left.node != right.node or left.node in void:
                continue
            should = bool(expected[left.uid] & expected[right.uid])
            do = bool(set(left.gpu_groups) & set(right.gpu_groups))
            if should != do:
                yield (
                    f"tasks {left.uid} and {right.uid}: "
                    f"{'share' if do else 'do not share'} a GPU of {left.node}"
                )


def _expected_groups(case: Case, session: Session) -> dict[str, set[str]]:
    expected: dict[str, set[str]] = {}
    for name, expectation in case.jobs.items():
        if expectation.gpu_groups and name in session.jobs:
            for uid in session.jobs[name].tasks:
                expected[uid] = set(expectation.gpu_groups)
    for uid, expectation in case.tasks.items():
        if expectation.gpu_groups and _find(session, uid) is not None:
            expected[uid] = set(expectation.gpu_groups)
    return expected


def _is_void(case: Case, node: Node, placed: Sequence[Task], expected: dict[str, set[str]]) -> bool:
    """Return whether the expected sharing on this node is impossible.

    The original suite does not compare sharing, so some expectations are impossible: tasks that
    together need more memory than a GPU has, or tasks that share although the case spreads work
    and a GPU of the node is idle.
    """
    memory: dict[str, int] = {}
    members: dict[str, int] = {}
    for task in placed:
        for group in expected[task.uid] if task.node == node.name else ():
            need = task.request.gpu.memory_on(node.gpu_memory_mib)
            memory[group] = memory.get(group, 0) + need
            members[group] = members.get(group, 0) + 1
    if any(need > node.gpu_memory_mib for need in memory.values()):
        return True
    spread = any(plugin.name == "gpuspread" for plugin in case.config.plugins)
    return spread and node.idle.gpu >= GPU and any(count > 1 for count in members.values())
