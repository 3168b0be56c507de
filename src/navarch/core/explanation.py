"""Explanations as data: how far a job got, which rule refused which nodes, what would help."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One rule that keeps the task off some nodes."""

    rule: str
    """The plugin, or `resources`."""
    reason: str
    nodes: int
    examples: tuple[str, ...]
    would_admit: int = 0
    """How many of the tasks those nodes could take if only this rule were not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What one node that nothing else speaks against lacks to take the task."""

    node: str
    lacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The best failed attempt: all that could be placed before one could not."""

    placed: int
    of: int
    on: tuple[str, ...]
    """The nodes of those placed, in order."""
    failed_task: str = ""
    asks_for: str = ""
    refusals: tuple[Refusal, ...] = ()
    closest: tuple[Shortfall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of a job, and why."""

    job: str
    queue: str
    state: str
    """`started`, `promised`, `running`, `waiting` or `not ready`."""
    summary: str
    decisions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """What was said about the job as a whole: queues, topology, actions that gave up."""
    attempt: Attempt | None = None
    remedies: tuple[str, ...] = ()
    """What would have to change; each alone would do, unless it says otherwise."""
