"""Explanations as data: how far a job got, which rule refused which nodes, what would help."""

from dataclasses import dataclass

from navarch.core.remedy import Remedy
from navarch.core.shortfall import Shortfall


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRefusal:
    """One rule that keeps the task off some nodes."""

    rule: str
    """The plugin, or `resources`."""
    reason: str
    nodes: int
    examples: tuple[str, ...]
    """The first few of `names`, for people."""
    names: tuple[str, ...] = ()
    would_admit: int = 0
    """How many of the tasks those nodes could take if only this rule were not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRoom:
    """How many of the tasks one domain of a topology could hold; nothing if that is not known."""

    name: str
    room: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The best failed attempt: all that could be placed, and the first that could not."""

    placed: int
    of: int
    on: tuple[str, ...]
    """The nodes of those placed, in order."""
    failed_task: str = ""
    asks_for: str = ""
    refusals: tuple[RuleRefusal, ...] = ()
    closest: tuple[Shortfall, ...] = ()
    within: str = ""
    """The domain that came closest, where the tasks must be in one."""
    domains: tuple[DomainRoom, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBound:
    """A quota or limit that the job would go beyond."""

    queue: str
    kind: str
    """`limit`, or `quota`, which bounds work that may not be interrupted."""
    resource: str
    bound: float
    used: float
    asked: float


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
    bound: QueueBound | None = None
    also_bound: tuple[QueueBound, ...] = ()
    """Further quotas and limits that are in the way."""
    ahead: int = 0
    """How many waiting jobs of its queue are served before it."""
    in_front: tuple[str, ...] = ()
    """The first few of them."""
    attempt: Attempt | None = None
    """Where a queue refuses the job: what would happen if it did not."""
    remedies: tuple[Remedy, ...] = ()
    """What would have to change: each of them is one way out."""
