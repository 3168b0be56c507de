"""A policy: ordered rules that say what an event means."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from navarch.core.health import Health
from navarch.core.node import Node, Phase

RESULTS = (Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY)
"""What a rule may conclude, mildest first."""

COUNT_MAX = 1000
"""The most matches that one rule can be made to wait for."""

WINDOW_MAX = timedelta(days=30)
"""How far back a rule may count; the journal reaches further."""

BOOT_GRACE = timedelta(minutes=5)
"""For how long after a start a machine counts as booting, unless the policy says otherwise."""

BUSY_FROM_PCT = 5.0
"""A GPU that is used less than this is idle, for all that a policy can tell."""


class MachinePhase(StrEnum):
    """What a machine is at."""

    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    RESETTING = "resetting"
    DRAINING = "draining"


class Scope(StrEnum):
    """What is counted by itself."""

    GPU = "gpu"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. Its condition must hold, and so must everything else that it asks for."""

    name: str
    condition: str
    """A boolean expression in CEL."""
    result: Health
    description: str = ""
    action: str | None = None
    """What to do about it; what the check says, if None."""
    fatal: bool | None = None
    """Whether to act at once. If None, as the check says; and an unhealthy verdict about a thing
    that happened is fatal, since it may never be said again."""
    count: int = 1
    """How many events the condition must have held for."""
    within: timedelta | None = None
    """Over how long they are counted."""
    per: Scope = Scope.GPU
    """Whether each GPU has a count of its own, or the node one for all of them."""
    distinct: str = ""
    """Count different values of this fact instead of events: `pid`, for one, counts processes."""
    sources: int = 1
    """How many sources must have seen the event."""
    phases: tuple[MachinePhase, ...] = ()
    """What the machine must be at; anything, if empty."""

    @property
    def unconditional(self) -> bool:
        """Whether nothing but the condition is asked for."""
        return self.count == 1 and self.sources == 1 and not self.phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules in the order in which they are tried."""

    name: str
    rules: tuple[Rule, ...]
    description: str = ""
    version: str = "v1"
    boot_grace: timedelta = BOOT_GRACE

    @property
    def memory(self) -> timedelta:
        """How far back its rules count."""
        return max((rule.within or timedelta(0) for rule in self.rules), default=timedelta(0))


NO_RULES = Policy(name="none", rules=())
"""No rules: what the checks say themselves stands."""

_COMING = (Phase.REQUESTED, Phase.BOOTING)
_LEAVING = (Phase.DRAINING, Phase.TERMINATING)

RESETS = frozenset({"reset_gpu", "reboot", "power_cycle"})
"""What the machine may have been asked for that makes errors of our own making."""


def machine_phase(
    node: Node,
    *,
    now: datetime,
    boot_grace: timedelta,
    utilization_pct: float | None = None,
    asked: Iterable[str] = (),
) -> MachinePhase:
    """Return what a machine is at; `asked` is what its agent has been asked and has not done.

    A machine that nobody has read lately counts as busy: to be lenient would take a reason.
    """
    if not RESETS.isdisjoint(asked):
        return MachinePhase.RESETTING
    booted_at = node.booted_at or node.registered_at
    if booted_at is None or node.phase in _COMING:
        return MachinePhase.BOOTING
    if now - booted_at < boot_grace:
        return MachinePhase.BOOTING
    if node.phase in _LEAVING:
        return MachinePhase.DRAINING
    if utilization_pct is not None and utilization_pct < BUSY_FROM_PCT:
        return MachinePhase.IDLE
    return MachinePhase.BUSY
