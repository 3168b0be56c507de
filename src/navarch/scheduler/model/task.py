"""A task inside a session."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.placement import Placement
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import TaskStatus

if TYPE_CHECKING:
    from navarch.scheduler.model.job import Job


UNPLACED: Final = {status: Placement(status) for status in TaskStatus}
"""Where tasks stand that have no place."""


class Task:
    """One task: fixed facts from the snapshot, and a placement that statements change."""

    __slots__ = (
        "created_at",
        "job",
        "kind",
        "labels",
        "namespace",
        "pending_quota",
        "placement",
        "request",
        "requires_gpu",
        "spec",
        "uid",
    )

    def __init__(self, spec: TaskSpec, job: "Job", *, min_gpu_memory_mib: int) -> None:
        self.spec = spec
        self.uid = spec.uid
        self.job = job
        self.namespace = job.namespace
        self.request: Request = spec.request
        self.labels: Mapping[str, str] = spec.labels
        self.requires_gpu = spec.request.requires_gpu
        self.created_at: datetime = spec.created_at or job.created_at
        # What a queue is charged before it is known where the task will run.
        self.pending_quota: Amounts = spec.request.quota_on(min_gpu_memory_mib)
        self.placement = UNPLACED[spec.status]
        self.kind: int | None = None
        """Equal for tasks that ask for the same, once somebody has looked."""

    @property
    def name(self) -> str:
        """The task's name, which is its uid."""
        return self.uid

    @property
    def status(self) -> TaskStatus:
        """Where the task is in its life."""
        return self.placement.status

    @property
    def node(self) -> str | None:
        """The node it is on, or will be on."""
        return self.placement.node

    @property
    def gpu_groups(self) -> tuple[str, ...]:
        """The shared GPUs it uses a part of."""
        return self.placement.gpu_groups

    def is_candidate(self, *, real: bool) -> bool:
        """Say whether the task wants a place: pending, or evicted only in this simulation."""
        placement = self.placement
        if placement.status is TaskStatus.PENDING:
            return True
        return not real and placement.virtual and placement.status is TaskStatus.RELEASING

    def __repr__(self) -> str:
        return f"Task({self.uid}, {self.status.title}, {self.node})"
