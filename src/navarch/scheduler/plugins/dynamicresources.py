"""Device claims: checks that a task can use its claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import QUEUE_LABEL, ClaimUse
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.plugins.node_scores import BuiltInPlugin

RESERVATIONS_MAX: Final = 256
"""The most tasks that one claim may be reserved for."""


@dataclass
class DynamicResources(BuiltInPlugin):
    """Rejects tasks with claims that do not exist, are used up, or belong to another queue.

    The devices of a claim are part of the placement, so undoing a placement releases them.
    """

    name: ClassVar[str] = "dynamicresources"

    max_cel_cache_entries: int = field(default=10, metadata=argument("maxCelCacheEntries"))
    """Accepted for compatibility; claims here need no expressions."""

    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the check."""
        self._session = session
        session.add_pre_predicate_fn(self._check, only_for=lambda task: bool(task.spec.claims))

    def _check(self, task: Task, job: Job) -> str | None:
        if not task.spec.claims:
            return None
        if not self._session.parameters.dynamic_resource_allocation:
            return "the task claims devices, and dynamic resource allocation is off"
        reasons = (self._check_claim(task, job, use) for use in task.spec.claims)
        return next((reason for reason in reasons if reason), None)

    def _check_claim(self, task: Task, job: Job, use: ClaimUse) -> str | None:
        claim = self._session.claims.find(task.namespace, use.claim)
        if claim is None:
            return f"claim {use.claim!r} does not exist"
        if self._session.claims.reservations(task, claim) >= RESERVATIONS_MAX:
            return f"claim {use.claim!r} is reserved for {RESERVATIONS_MAX} tasks already"
        # Only GPUs count towards the quotas of queues.
        if use.from_template or "gpu" not in claim.device_class.lower():
            return None
        if claim.labels.get(QUEUE_LABEL) != job.queue:
            return f"claim {use.claim!r} is not labelled {QUEUE_LABEL}={job.queue}"
        return None
