"""Policies: ordered rules that decide what an event means."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from navarch.core.health import Health
from navarch.core.node import Node, Phase

COUNT_MAX = 1000
"""The highest `count` of a rule."""

WINDOW_MAX = timedelta(days=30)
"""The longest window of a rule; the journal reaches further back."""

BOOT_GRACE = timedelta(minutes=5)
"""How long after its boot a machine counts as booting, by default."""

BUSY_FROM_PCT = 5.0
"""A GPU below this utilization is idle."""


class MachinePhase(StrEnum):
    """The phase of a machine. A link that is down means one thing at boot, another under load."""

    BOOTING = "booting"
    IDLE = "idle"
    BUSY = "busy"
    RESETTING = "resetting"
    DRAINING = "draining"


class Scope(StrEnum):
    """What a rule counts separately."""

    GPU = "gpu"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: a condition, and further requirements."""

    name: str
    condition: str
    """A boolean expression in CEL."""
    result: Health
    description: str = ""
    action: str | None = None
    """The action to take; None keeps the check's action."""
    fatal: bool | None = None
    """Whether to act at once. None keeps the check's value, except that an unhealthy verdict about
    a lasting result is fatal: it may never be reported again."""
    count: int = 1
    """The number of events for which the condition must have held."""
    within: timedelta | None = None
    """The window in which they are counted."""
    per: Scope = Scope.GPU
    """Whether events are counted per GPU or per node."""
    distinct: str = ""
    """Count distinct values of this fact instead of events, such as `pid` for processes."""
    sources: int = 1
    """The number of sources that must have seen the event."""
    phases: tuple[MachinePhase, ...] = ()
    """The phases in which the rule applies; empty means all."""

    @property
    def unconditional(self) -> bool:
        """Whether the rule has no requirement besides its condition."""
        return self.count == 1 and self.sources == 1 and not self.phases


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules, in the order in which they are tried."""

    name: str
    rules: tuple[Rule, ...]
    description: str = ""
    version: str = "v1"
    boot_grace: timedelta = BOOT_GRACE

    @property
    def memory(self) -> timedelta:
        """The longest window of its rules."""
        return max((rule.within or timedelta(0) for rule in self.rules), default=timedelta(0))


NO_RULES = Policy(name="none", rules=())
"""A policy without rules: the results of the checks stand."""

_COMING = (Phase.REQUESTED, Phase.BOOTING)
_LEAVING = (Phase.DRAINING, Phase.TERMINATING)

RESETS = frozenset({"reset_gpu", "reboot", "power_cycle"})
"""Commands that cause errors by themselves while they run."""


def machine_phase(
    node: Node,
    *,
    now: datetime,
    boot_grace: timedelta,
    utilization_pct: float | None = None,
    asked: Iterable[str] = (),
) -> MachinePhase:
    """Return the phase of a machine; `asked` are the pending commands of its agent.

    A machine without a recent utilization reading counts as busy: leniency needs evidence.
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
