"""What would have to change so that a job can start, as data and in words."""

from dataclasses import dataclass
from enum import StrEnum

from navarch.core.shortfall import Shortfall


class StepKind(StrEnum):
    """What is to be changed; the comment names the fields of a step that belong to it."""

    ADD_PLACES = "add_places"
    """`count` more places for tasks that ask for `asks_for`, within the domain `within` if any."""
    FREE = "free"
    """`lacks` on its node."""
    LIFT_RULE = "lift_rule"
    """What `rule` has against `nodes`, which is `reason`."""
    RAISE_BOUND = "raise_bound"
    """The `bound` (quota or limit) of `queue`, by `amount` of `resource`."""
    WAIT_FOR_QUEUE = "wait_for_queue"
    """Until jobs of `queue` give back `amount` of `resource`."""
    MAKE_INTERRUPTIBLE = "make_interruptible"
    """The job: what may be interrupted may use more than a quota."""
    CHANGE_QUEUE = "change_queue"
    """Of the job: `queue` cannot have any."""
    ADD_TASKS = "add_tasks"
    """`count` more in the pod set `pod_set`."""
    SPREAD_WIDER = "spread_wider"
    """Than `level` of a topology allows."""
    SCALE_POOL = "scale_pool"
    """`pool` to `count` nodes."""
    RAISE_POOL_MAX = "raise_pool_max"
    """Of `pool`, to `count` nodes."""
    ADD_POOL = "add_pool"
    """With machines that can hold a task that asks for `asks_for`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to change. Which fields say something depends on its kind."""

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
    """One way out: all of its steps together."""

    says: str
    """The same for people."""
    steps: tuple[Step, ...]
