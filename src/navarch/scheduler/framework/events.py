"""What a plugin is told whenever a task is placed or taken away, for real or in a simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from navarch.scheduler.model.node import Node
from navarch.scheduler.model.task import Task


class Event(NamedTuple):
    """`task` was placed on `node`, or taken away from it."""

    task: Task
    node: str


EventFn = Callable[[Event], None]
EventsFn = Callable[[Sequence[Task], Sequence[Node]], None]
"""The tasks, and in the same order their nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHandler:
    """What to call on each kind of event.

    The two must undo each other exactly: a session takes simulated placements back by calling the
    other one. A handler that raises stops the change, which is then taken back everywhere.
    """

    allocate_fn: EventFn | None = None
    deallocate_fn: EventFn | None = None
    allocate_all_fn: EventsFn | None = None
    """Told instead of `allocate_fn` of many equal tasks of one job that were placed together."""
    deallocate_all_fn: EventsFn | None = None
