"""How well a task suits a node, and why not."""

from dataclasses import dataclass
from enum import IntEnum


class Fit(IntEnum):
    """Whether a task may go to a node."""

    NO = 0
    LATER = 1
    """Once a task that is leaving has gone."""
    NOW = 2


class Later(str):
    """A predicate's reason that is temporary: it ends when leaving tasks have gone."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnschedulableReason:
    """Why one task cannot go to one node; without a node, why it can go nowhere."""

    task: str
    reason: str
    node: str | None = None
    plugin: str = ""

    @property
    def passes(self) -> bool:
        """Whether the reason ends when leaving tasks have gone."""
        return isinstance(self.reason, Later)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnschedulableJob:
    """Why a job as a whole was not placed: a summary, and details per place that was considered."""

    summary: str
    details: tuple[tuple[str, str], ...] = ()
    level: str = ""
    """The topology level of which one domain had to hold the job."""
    rooms: tuple[tuple[str, int | None], ...] = ()
    """For each domain, how many of the tasks it could hold, if that was computed."""
    wanted: int = 0
    """How many it had to hold."""

    def render(self) -> str:
        """Return the text shown to the job's owner."""
        if not self.details:
            return f"\nPodSchedulingErrors.\n{self.summary}"
        lines = "".join(f"\n<{place}>: {text}" for place, text in self.details)
        return f"\nUnable to schedule podgroup.{lines}\n{self.summary}"
