"""Plans: what is to be done about a pool, as values with reasons."""

from dataclasses import dataclass
from datetime import datetime

from navarch.core.drafting import drafted
from navarch.core.gang import Gang
from navarch.core.held import Held
from navarch.core.ids import NodeId, PoolName
from navarch.core.launch import Launch
from navarch.core.recovery import Recovery


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Want one more node, and ask for its machine."""

    launch: Launch
    reason: str
    replaces: NodeId | None = None
    table: str = ""
    """What else could have been bought, and why it was not."""
    waiting: bool = False
    """Whether its gang is not complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLaunch:
    """Ask once more for the machine of a node that was refused one."""

    launch: Launch
    reason: str
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Keep new work off `node`."""

    node: NodeId
    reason: str
    automatic: bool = False
    """Whether it counts against what automation may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordon:
    """Let new work onto `node` again."""

    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Begin to mend the machine of a node in place."""

    recovery: Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    """Note what is not done about `node`, and why; None: nothing is held back any more."""

    node: NodeId
    held: Held | None
    reason: str = ""


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Give `node` back."""

    node: NodeId
    reason: str
    surplus: bool = False
    urgent: bool = False
    automatic: bool = False
    failed: bool = False
    """Whether its agent never reported in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Move the work off `node`, which is to be given back."""

    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Let go of the machine of `node`; nothing on it is worth waiting for any more."""

    node: NodeId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseAutomation:
    """Note that automation holds back in this pool while `reason` holds; None: no longer."""

    reason: str | None
    unreachable: bool = False
    """Whether nodes of the pool are part of an outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLaunchBreaker:
    """Note why this pool buys nothing at present; None: it buys again."""

    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Let `nodes` serve: their gang is complete."""

    gang: Gang
    nodes: tuple[NodeId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """Give every machine of a gang back: the rest of it is not to be had."""

    gang: Gang
    nodes: tuple[NodeId, ...]
    reason: str
    began_at: datetime


Action = (
    Request
    | RetryLaunch
    | Cordon
    | Uncordon
    | Recover
    | Defer
    | Retire
    | Drain
    | Terminate
    | PauseAutomation
    | SetLaunchBreaker
    | Release
    | Abandon
)


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do about one pool now, and when to look again if nothing changes before."""

    pool: PoolName
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    settled: bool = False
    """Whether there is nothing more to plan, once this is written down, before `wake_at`."""
    at_rest: bool = False
    """Whether then nothing is waited for, either, but that machines boot in time."""
