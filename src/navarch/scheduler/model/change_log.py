"""Which nodes and jobs have changed since somebody last looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from navarch.scheduler.model.job import Job


class ChangeLog:
    """The nodes of every booking in order, so that whoever keeps figures can catch up."""

    __slots__ = ("enter_all", "grown", "jobs", "rows", "shares", "waits")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.jobs: list[Job] = []
        """Whose task has gained or lost a place, each time."""
        self.grown = 0
        """How often something was given back; in between, there was only ever less to have."""
        self.waits = False
        """Whether anybody has ever been on the way out, or was promised what they leave."""
        self.shares = False
        """Whether anybody has ever had a part of a GPU."""
        self.enter_all: Callable[[], None] | None = None
        """What writes down who is on which node, if that is still to be done."""
