"""Remedies: changes with which a job could start, as data and as text."""

from dataclasses import dataclass
from enum import StrEnum

from navarch.core.shortfall import Shortfall


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
