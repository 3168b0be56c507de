"""The nodes and jobs that have changed, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from navarch.scheduler.model.job import Job


class ChangeLog:
    """The row of every booking in order, so that derived figures can catch up."""

    __slots__ = ("enter_all", "grown", "jobs", "rows", "shares", "waits")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.jobs: list[Job] = []
        """The job of every task that has gained or lost a place."""
        self.grown = 0
        """How often something was given back; in between, there was only ever less to have."""
        self.waits = False
        """Whether a task has ever been leaving, or was promised what another leaves."""
        self.shares = False
        """Whether a GPU has ever been shared."""
        self.enter_all: Callable[[], None] | None = None
        """Enters all tasks at their nodes, if that is still to be done."""
