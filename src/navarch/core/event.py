"""Events: changes and their reasons; and explanations of scheduling decisions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

import msgspec

Subject = NewType("Subject", str)
"""The subject of an event: `node/training-3`, `pool/training`, `launch/…`, `command/…`."""


BY_HAND = "hand"
"""The value of the fact `by` for requests of users, as opposed to decisions of Navarch."""


def about(kind: str, name: str) -> Subject:
    """Return the subject of that kind and name."""
    return Subject(f"{kind}/{name}")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One change and its reason, readable by an operator."""

    at: datetime
    about: Subject
    kind: str
    """The kind of change, as `noun.verb`: `node.requested`, `pool.scaled`."""
    reason: str
    because: tuple[Subject, ...] = ()
    """Other subjects that explain the event by their state at that moment."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """An event with its place in the journal."""

    number: int
    revision: int
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """The resources that one otherwise suitable node lacks for the task."""

    node: str
    lacks: str
    """The figures below as text."""
    gpus: float = 0.0
    cpu_cores: float = 0.0
    memory_gb: float = 0.0
    pods: float = 0.0


class StepKind(StrEnum):
    """The kind of change; each comment names the fields of `Step` that it uses."""

    ADD_PLACES = "add_places"
    """Add `count` places for tasks that request `asks_for`, within the domain `within` if any."""
    FREE = "free"
    """Free `lacks` on its node."""
    LIFT_RULE = "lift_rule"
    """Lift the objection `reason` of `rule` to `nodes`."""
    RAISE_BOUND = "raise_bound"
    """Raise the `bound` (quota or limit) of `queue` by `amount` of `resource`."""
    WAIT_FOR_QUEUE = "wait_for_queue"
    """Wait until jobs of `queue` release `amount` of `resource`."""
    MAKE_INTERRUPTIBLE = "make_interruptible"
    """Make the job interruptible: such jobs may exceed a quota."""
    CHANGE_QUEUE = "change_queue"
    """Move the job to another queue: `queue` cannot contain jobs."""
    ADD_TASKS = "add_tasks"
    """Add `count` tasks to the pod set `pod_set`."""
    SPREAD_WIDER = "spread_wider"
    """Spread the tasks wider than `level` of a topology allows."""
    SCALE_POOL = "scale_pool"
    """Scale `pool` to `count` nodes."""
    RAISE_POOL_MAX = "raise_pool_max"
    """Raise the maximum of `pool` to `count` nodes."""
    ADD_POOL = "add_pool"
    """Add a pool with machines that can hold a task that requests `asks_for`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change. Its kind decides which fields are set."""

    kind: StepKind
    count: int = 0
    asks_for: str = ""
    within: str = ""
    lacks: Shortfall | None = None
    rule: str = ""
    reason: str = ""
    nodes: tuple[str, ...] = ()
    queue: str = ""
    bound: str = ""
    resource: str = ""
    amount: float = 0.0
    pod_set: str = ""
    level: str = ""
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to start the job: all of its steps together."""

    says: str
    """The steps as text."""
    steps: tuple[Step, ...]


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
