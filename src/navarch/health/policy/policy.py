"""A policy: ordered rules that say what an event means."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from navarch.core.health import Health
from navarch.health.policy.phase import MachinePhase

RESULTS = (Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY)
"""What a rule may conclude, mildest first."""

COUNT_MAX = 1000
"""The most matches that one rule can be made to wait for."""

WINDOW_MAX = timedelta(days=30)
"""How far back a rule may count; the journal reaches further."""

BOOT_GRACE = timedelta(minutes=5)
"""For how long after a start a machine counts as booting, unless the policy says otherwise."""


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


BELIEVE_CHECKS = Policy(name="none", rules=())
"""No rules: what the checks say themselves stands."""
