"""The placement of a task as a value: what a change must book, and what undoing it restores."""

from enum import StrEnum
from typing import NamedTuple

from navarch.scheduler.model.cluster import Device
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, TaskStatus


class Hold(StrEnum):
    """How a task weighs on a node."""

    NOW = "now"
    """It occupies the node: idle shrinks."""

    LEAVING = "leaving"
    """It occupies the node, and what it has will come free."""

    NEXT = "next"
    """It takes what a leaving task gives up."""


class Booking(NamedTuple):
    """One task's weight on one node. A task that moves has two: where it was, where it will be."""

    node: str
    hold: Hold
    gpu_groups: tuple[str, ...] = ()
    devices: tuple[tuple[str, tuple[Device, ...]], ...] = ()
    """Per claim, its devices."""


class Placement(NamedTuple):
    """Everything about a task that scheduling can change."""

    status: TaskStatus
    node: str | None = None
    gpu_groups: tuple[str, ...] = ()
    bookings: tuple[Booking, ...] = ()
    virtual: bool = False
    """Set while a statement that is not committed has moved the task."""

    @property
    def counts(self) -> bool:
        """Whether the task's queue is charged for it."""
        return bool(self.status & ACTIVE_ALLOCATED_MASK)


def without_place(before: Placement) -> Placement:
    """Return the placement of an evicted task: leaving, or pending if it only had a promise."""
    leaving = tuple(
        Booking(booking.node, Hold.LEAVING, booking.gpu_groups, booking.devices)
        for booking in before.bookings
        if booking.hold is not Hold.NEXT
    )
    if not leaving:
        return Placement(TaskStatus.PENDING, virtual=True)
    last = leaving[-1]
    return Placement(TaskStatus.RELEASING, last.node, last.gpu_groups, leaving, virtual=True)
