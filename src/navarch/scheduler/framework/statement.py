"""The undo log: changes to the session that take effect together or not at all."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from navarch.scheduler.framework.decision import (
    Bind,
    Decision,
    Evict,
    Nominate,
    Withdraw,
    offer,
)
from navarch.scheduler.model.job import UNPLACED
from navarch.scheduler.model.placement import Booking, Hold, Placement, without_place
from navarch.scheduler.model.quantity import gpus
from navarch.scheduler.model.status import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node


_new_bind = tuple.__new__
"""Makes binds in half the time that calling `Bind` takes; a cycle makes tens of thousands."""


class Kind(StrEnum):
    """What an operation does to its task."""

    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"


class Operation:
    """One task's step from one placement to another."""

    __slots__ = ("after", "before", "beneficiary", "kind", "reason", "standing", "task")

    def __init__(self, kind: Kind, task: Task, after: Placement) -> None:
        self.kind = kind
        self.task = task
        self.before = task.placement
        self.after = after
        self.standing = False
        """Whether it is in force: carried out and not undone."""
        self.reason = ""
        self.beneficiary: str | None = None

    def __repr__(self) -> str:
        return f"Operation({self.kind}, {self.task.uid}, {self.before.node} -> {self.after.node})"


class Bulk:
    """Many equal tasks of one job, put on what is idle on their nodes in one go."""

    __slots__ = ("nodes", "operations", "tasks")

    def __init__(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        self.tasks = tasks
        self.nodes = nodes
        self.operations: list[Operation] | None = None
        """One operation per task, once one of the tasks is treated separately."""


class Undo(NamedTuple):
    """A record that operations were undone, so that this can be undone as well."""

    operations: list[Operation]


class Statement:
    """An ordered list of operations on a session that can be reverted.

    As a context manager it reverts everything that is not committed, so forgetting is safe. `undo`
    works in any order: reverting an operation first reverts later operations on the same task;
    different tasks do not depend on each other.
    """

    def __init__(self, state: ClusterState, action: str) -> None:
        self._state = state
        self._action = action
        self._log: list[Operation | Bulk | Undo] = []
        self._folded: list[Bulk] = []
        """Bulks that have not been split into operations."""
        self._of_task: dict[str, list[Operation]] = {}

    def __enter__(self) -> Statement:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def allocate(self, task: Task, node: Node, gpu_groups: tuple[str, ...] = ()) -> Operation:
        """Put the task on what is idle on the node."""
        devices = self._state.choose_devices(task, node, now=True)
        booking = Booking(node.name, Hold.NOW, gpu_groups, devices)
        after = Placement(TaskStatus.ALLOCATED, node.name, gpu_groups, (booking,), virtual=True)
        return self._carry_out(Operation(Kind.ALLOCATE, task, after))

    def allocate_all(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Put equal pending tasks of one job, without shared GPUs, on what is idle on nodes."""
        bulk = Bulk(tasks, nodes)
        self._state.allocate(tasks, nodes)
        self._log.append(bulk)
        self._folded.append(bulk)

    def pipeline(
        self,
        task: Task,
        node: Node,
        gpu_groups: tuple[str, ...] = (),
        *,
        update_if_there: bool = False,
    ) -> Operation | None:
        """Promise the task a place on the node once others have left it.

        A task that was only just evicted from there simply stays, unless `update_if_there` or it
        is to change GPUs; then nothing is promised and its eviction is taken back instead.
        """
        standing = self._standing(task)
        eviction = next((op for op in standing if op.kind is Kind.EVICT), None)
        if eviction is not None and not update_if_there:
            left = eviction.before
            if left.node == node.name and set(left.gpu_groups) == set(gpu_groups):
                self.undo(eviction)
                return None
        devices = self._state.choose_devices(task, node, now=False)
        bookings = task.placement.bookings
        if not (bookings or gpu_groups or devices):
            return self._carry_out(Operation(Kind.PIPELINE, task, node.promised))
        leaving = tuple(b for b in bookings if b.hold is Hold.LEAVING)
        booking = Booking(node.name, Hold.NEXT, gpu_groups, devices)
        after = Placement(
            TaskStatus.PIPELINED, node.name, gpu_groups, (*leaving, booking), virtual=True
        )
        return self._carry_out(Operation(Kind.PIPELINE, task, after))

    def evict(self, task: Task, reason: str, *, beneficiary: str | None = None) -> Operation:
        """Evict the task from its node, or withdraw the place that is kept for it."""
        self._unfold()
        before = task.placement
        assert before.counts, f"{task} cannot be evicted: it has no place"
        operation = Operation(Kind.EVICT, task, without_place(before))
        operation.reason = reason
        operation.beneficiary = beneficiary
        return self._carry_out(operation)

    def convert_all_allocated_to_pipelined(self, job: Job) -> None:
        """Replace everything this statement allocated for the job by promises on the same nodes."""
        self._unfold()
        for operation in self._standing_operations():
            if operation.kind is not Kind.ALLOCATE or operation.task.job is not job.origin:
                continue
            task, placed = operation.task, operation.after
            assert placed.node is not None, f"{task} was allocated without a node"
            self.undo(operation)
            node = self._state.nodes[placed.node]
            self.pipeline(task, node, placed.gpu_groups, update_if_there=True)

    def undo(self, operation: Operation) -> None:
        """Take one operation back, and before it what was done to the same task later."""
        self._unfold()
        if not operation.standing:
            return
        later = self._standing(operation.task)
        undone = later[later.index(operation) :]
        for each in reversed(undone):
            self._state.move(each.task, each.before)
            each.standing = False
        self._log.append(Undo(undone))

    @property
    def promises(self) -> bool:
        """Whether it may hold a promise, and not only tasks that can start at once."""
        return len(self._log) != len(self._folded)

    def checkpoint(self) -> int:
        """Return a mark to which `rollback` can return."""
        return len(self._log)

    def rollback(self, checkpoint: int) -> None:
        """Take back everything since `checkpoint`, including undoings."""
        while len(self._log) > checkpoint:
            self._take_back(self._log[-1])
            self._log.pop()

    def _take_back(self, entry: Operation | Bulk | Undo) -> None:
        if isinstance(entry, Undo):
            for operation in entry.operations:
                self._state.move(operation.task, operation.after)
                operation.standing = True
        elif isinstance(entry, Operation):
            if entry.standing:
                self._state.move(entry.task, entry.before)
                entry.standing = False
            self._of_task[entry.task.uid].pop()
        elif entry.operations is None:
            self._state.release(entry.tasks, entry.nodes)
            self._folded.remove(entry)
        else:
            for operation in reversed(entry.operations):
                self._take_back(operation)

    def _unfold(self) -> None:
        """Split bulks into one operation per task."""
        for bulk in self._folded:
            bulk.operations = []
            for task, node in zip(bulk.tasks, bulk.nodes, strict=True):
                operation = Operation(Kind.ALLOCATE, task, node.taken)
                operation.before = UNPLACED[TaskStatus.PENDING]
                operation.standing = True
                bulk.operations.append(operation)
                self._of_task.setdefault(task.uid, []).append(operation)
        self._folded.clear()

    def discard(self) -> None:
        """Take back everything."""
        if self._log:
            self.rollback(0)

    def commit(self) -> str | None:
        """Decide everything in force, or nothing; return why nothing was decided, or `None`.

        If one decision is refused, the ones accepted before it are withdrawn and the session is as
        it was before the statement.
        """
        refusal = offer(self._state.sink, self.decisions())
        if refusal is not None:
            self.discard()
            return refusal
        for entry in self._log:
            if isinstance(entry, Bulk) and entry.operations is None:
                self._state.commit(entry.tasks, entry.nodes)
            else:
                for operation in _standing_of(entry):
                    self._state.commit_task(operation.task)
        self._log.clear()
        self._folded.clear()
        self._of_task.clear()
        return None

    def decisions(self) -> list[Decision]:
        """Return what committing now would decide."""
        found: list[Decision] = []
        for entry in self._log:
            if isinstance(entry, Bulk) and entry.operations is None:
                found += self._binds(entry)
            else:
                found += [self._decision(operation) for operation in _standing_of(entry)]
        return found

    def _binds(self, bulk: Bulk) -> list[Bind]:
        first, state = bulk.tasks[0], self._state
        job, action = first.job.name, self._action
        portion = gpus(first.pending_quota.gpu)  # whole GPUs count for the same on any node
        mutated = bool(state.hooks("bind_request_mutate"))
        return [
            _new_bind(
                Bind,
                (
                    task.uid,
                    job,
                    node.name,
                    action,
                    (),
                    portion,
                    (),
                    state.bind_annotations(task, node.name) if mutated else {},
                ),
            )
            for task, node in zip(bulk.tasks, bulk.nodes, strict=True)
        ]

    def touched(self) -> list[Task]:
        """Return the tasks that have moved since the statement began, in order of change."""
        return list({op.task.uid: op.task for op in self._standing_operations()}.values())

    def _decision(self, operation: Operation) -> Decision:
        task, after = operation.task, operation.after
        node = operation.before.node if operation.kind is Kind.EVICT else after.node
        assert node is not None, f"{operation} has no node"
        name, job = task.uid, task.job.name
        match operation.kind:
            case Kind.EVICT:
                kept = operation.before.status is TaskStatus.PIPELINED
                return (Withdraw if kept else Evict)(
                    task=name,
                    job=job,
                    node=node,
                    action=self._action,
                    reason=operation.reason,
                    beneficiary=operation.beneficiary,
                )
            case Kind.PIPELINE:
                return Nominate(
                    task=name, job=job, node=node, action=self._action, gpu_groups=after.gpu_groups
                )
            case Kind.ALLOCATE:
                quota = self._state.nodes[node].quota_of(task.request)
                return Bind(
                    task=name,
                    job=job,
                    node=node,
                    action=self._action,
                    gpu_groups=after.gpu_groups,
                    gpu_portion=gpus(quota.gpu),
                    devices=after.bookings[-1].devices,
                    annotations=self._state.bind_annotations(task, node),
                )

    def _carry_out(self, operation: Operation) -> Operation:
        self._state.move(operation.task, operation.after)
        operation.standing = True
        self._log.append(operation)
        self._of_task.setdefault(operation.task.uid, []).append(operation)
        return operation

    def _standing_operations(self) -> list[Operation]:
        self._unfold()
        return [operation for entry in self._log for operation in _standing_of(entry)]

    def _standing(self, task: Task) -> list[Operation]:
        return [op for op in self._of_task.get(task.uid, ()) if op.standing]


def _standing_of(entry: Operation | Bulk | Undo) -> list[Operation]:
    """Return the operations of an entry of the log that are in force."""
    if isinstance(entry, Operation):
        return [entry] if entry.standing else []
    if isinstance(entry, Undo):
        return []
    return [operation for operation in entry.operations or () if operation.standing]
