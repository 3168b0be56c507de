"""Explanations of a job's state: attempts, rules that refused nodes, shortfalls and remedies."""

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
    """The first few of `names`, for display."""
    names: tuple[str, ...] = ()
    would_admit: int = 0
    """How many of the tasks those nodes could take without this rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRoom:
    """The number of tasks that one domain of a topology could hold; None if unknown."""

    name: str
    room: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The best failed attempt: the tasks that could be placed, and the first that could not."""

    placed: int
    of: int
    on: tuple[str, ...]
    """The nodes of the placed tasks, in order."""
    failed_task: str = ""
    asks_for: str = ""
    refusals: tuple[RuleRefusal, ...] = ()
    closest: tuple[Shortfall, ...] = ()
    within: str = ""
    """The domain that came closest, if all tasks must be in one domain."""
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
    """The state of a job, with reasons and remedies."""

    job: str
    queue: str
    state: str
    """`started`, `promised`, `running`, `waiting` or `not ready`."""
    summary: str
    decisions: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """Reasons that concern the whole job: queues, topology, actions without a result."""
    bound: QueueBound | None = None
    also_bound: tuple[QueueBound, ...] = ()
    """Further quotas and limits that the job would exceed."""
    ahead: int = 0
    """The number of waiting jobs of its queue that are served before it."""
    in_front: tuple[str, ...] = ()
    """The first few of them."""
    attempt: Attempt | None = None
    """If a queue refuses the job, the attempt without that refusal."""
    remedies: tuple[Remedy, ...] = ()
    """Alternatives: each of them alone lets the job start."""
