"""Limits on the GPUs of one type that a queue and its children may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from navarch.catalogue.gpu_types import parse_gpu_type
from navarch.core.errors import InvalidError
from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.hooks import Event, EventHandler
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import gpus, hundredths
from navarch.scheduler.plugins.node_scores import BuiltInPlugin

TYPE_LABEL: Final = "nvidia.com/gpu.product"


@dataclass
class GpuTypeQuota(BuiltInPlugin):
    """Rejects nodes with GPUs of a type that the task's queue has used up."""

    name: ClassVar[str] = "gputypequota"

    limits: str = field(default="", metadata=argument("limits"))
    """`queue/type=GPUs`, separated by commas, such as `research/h100=16,research/a100=64`.

    `h100` means every H100, whatever the exact label value. If several limits apply, all hold.
    """
    label: str = field(default=TYPE_LABEL, metadata=argument("label"))

    _session: Session = field(init=False, repr=False)
    _limits: dict[tuple[str, str], int] = field(init=False, repr=False, default_factory=dict)
    _used: dict[tuple[str, str], int] = field(init=False, repr=False, default_factory=dict)
    _limits_by_label: dict[tuple[str, int], list[tuple[str, str]]] = field(
        init=False, repr=False, default_factory=dict
    )
    """The limits for each pair of label value and GPU count of a node."""

    def on_session_open(self, session: Session) -> None:
        """Count the GPUs that queues use, and register the check."""
        self._session = session
        self._limits = parse_limits(self.limits)
        self._used = dict.fromkeys(self._limits, 0)
        for job in session.jobs.values():
            for task in job.tasks.values():
                if task.placement.counts and task.node is not None:
                    self._count(Event(task, task.node), 1)
        bounded = {queue for queue, _ in self._limits}
        session.add_predicate_fn(
            self._check,
            only_for=lambda task: (
                task.requires_gpu and not bounded.isdisjoint(self._lineage(task.job.queue))
            ),
        )
        session.add_event_handler(
            EventHandler(
                allocate_fn=lambda event: self._count(event, 1),
                deallocate_fn=lambda event: self._count(event, -1),
            )
        )

    def _lineage(self, name: str) -> list[str]:
        queue = self._session.queues.by_name.get(name)
        return [] if queue is None else [each.name for each in queue.lineage()]

    def _limits_on(self, job: Job, node: Node) -> list[tuple[str, str]]:
        """Return the limits that apply to tasks of the job on the node."""
        called = node.labels.get(self.label)
        if not called:
            return []
        machine = (called, node.spec.gpu_count)
        if machine not in self._limits_by_label:
            self._limits_by_label[machine] = [
                limit for limit in self._limits if parse_gpu_type(limit[1]).covers(*machine)
            ]
        lineage = self._lineage(job.queue)
        return [limit for limit in self._limits_by_label[machine] if limit[0] in lineage]

    def _count(self, event: Event, sign: int) -> None:
        node = self._session.nodes[event.node]
        amount = int(node.quota_of(event.task.request).gpu)
        for limit in self._limits_on(event.task.job, node):
            self._used[limit] += sign * amount

    def _check(self, task: Task, job: Job, node: Node) -> str | None:
        amount = int(node.quota_of(task.request).gpu)
        for limit in self._limits_on(job, node):
            if self._used[limit] + amount > self._limits[limit]:
                queue, kind = limit
                return (
                    f"queue {queue} may use {gpus(self._limits[limit]):g} GPUs of type {kind}, "
                    f"in use {gpus(self._used[limit]):g}"
                )
        return None


def parse_limits(text: str) -> dict[tuple[str, str], int]:
    """Return limits in hundredths of GPUs by queue and type.

    Raises:
        InvalidError: The text is not of the form `queue/type=GPUs,...`.
    """
    limits: dict[tuple[str, str], int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        place, equals, count = part.rpartition("=")
        queue, slash, kind = place.partition("/")
        if not (equals and slash and queue and kind and count.replace(".", "", 1).isdigit()):
            raise InvalidError(f"plugin 'gputypequota': {part!r} is not queue/type=GPUs")
        limits[queue, kind] = hundredths(float(count))
    return limits
