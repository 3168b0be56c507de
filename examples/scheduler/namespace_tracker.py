"""A plugin that counts the placed tasks of each namespace, simulations included.

Handlers receive every placement and removal, including those that are undone, so the count always
matches the state of the session.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from navarch.scheduler.framework.hooks import Event, EventHandler
from navarch.scheduler.framework.session import Session


@dataclass
class NamespaceAllocationTracker:
    """Tracks the number of placed tasks per namespace."""

    name: ClassVar[str] = "namespace-allocation-tracker"

    tasks_per_namespace: dict[str, int] = field(default_factory=dict)

    def on_session_open(self, session: Session) -> None:
        """Register the event handlers."""
        self.tasks_per_namespace = {}
        session.add_event_handler(
            EventHandler(
                allocate_fn=lambda event: self._count(event, 1),
                deallocate_fn=lambda event: self._count(event, -1),
            )
        )

    def on_session_close(self, session: Session) -> None:
        """The place to publish the counts."""

    def _count(self, event: Event, change: int) -> None:
        namespace = event.task.namespace
        self.tasks_per_namespace[namespace] = self.tasks_per_namespace.get(namespace, 0) + change
