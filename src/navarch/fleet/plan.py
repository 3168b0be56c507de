"""Plans: actions for a pool, as values with reasons."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import msgspec

from navarch.core.disruption import Cause, Deferred
from navarch.core.errors import InvariantError
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.launch import Gang, Launch, Offering
from navarch.core.node import Phase
from navarch.core.recovery import Recovery


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and the reason to remove it once its replacement serves."""

    node: NodeId
    cause: Cause
    reason: str
    successor: Offering | None = None
    """The offering its replacement must have; None for any offering of the pool."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Add a node, and request its machine."""

    launch: Launch
    reason: str
    replaces: NodeId | None = None
    table: str = ""
    """The options that could have been bought, and why they were not."""
    waiting: bool = False
    """Whether its gang is not complete."""


class RetryLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Request a machine again for a node after its launch was refused."""

    launch: Launch
    reason: str
    table: str = ""


class Cordon(msgspec.Struct, frozen=True, kw_only=True):
    """Keep new work off `node`."""

    node: NodeId
    reason: str
    automatic: bool = False
    """Whether it counts against the budget of automation."""


class Uncordon(msgspec.Struct, frozen=True, kw_only=True):
    """Let new work onto `node` again."""

    node: NodeId
    reason: str


class Recover(msgspec.Struct, frozen=True, kw_only=True):
    """Start to repair the machine of a node in place."""

    recovery: Recovery


class Defer(msgspec.Struct, frozen=True, kw_only=True):
    """Record what is not done about `node`, and why; None: nothing is deferred any more."""

    node: NodeId
    held: Deferred | None
    reason: str = ""


class Retire(msgspec.Struct, frozen=True, kw_only=True):
    """Remove `node`."""

    node: NodeId
    reason: str
    surplus: bool = False
    urgent: bool = False
    automatic: bool = False
    failed: bool = False
    """Whether its agent never registered."""


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """Move the work off `node`, which is to be removed."""

    node: NodeId
    reason: str


class Terminate(msgspec.Struct, frozen=True, kw_only=True):
    """Terminate the machine of `node`; its work has left or is lost."""

    node: NodeId
    reason: str


class PauseAutomation(msgspec.Struct, frozen=True, kw_only=True):
    """Record that automation is paused in this pool for `reason`; None: it resumes."""

    reason: str | None
    unreachable: bool = False
    """Whether nodes of the pool are part of an outage."""


class SetLaunchBreaker(msgspec.Struct, frozen=True, kw_only=True):
    """Record why this pool buys nothing now; None: it buys again."""

    reason: str | None


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Open `nodes` to work: their gang is complete."""

    gang: Gang
    nodes: tuple[NodeId, ...]
    reason: str


class Abandon(msgspec.Struct, frozen=True, kw_only=True):
    """Remove every member of a gang that cannot be completed."""

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


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The actions for one pool, and when to plan again if nothing changes before."""

    pool: PoolName
    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None


def check_plans(plans: Iterable[Plan], fleet: Fleet) -> None:
    """Raise InvariantError if any of `plans` breaks a law."""
    for plan in plans:
        pool = fleet.pools[plan.pool]
        asked: set[NodeId] = set()
        gangs: Counter[Gang] = Counter()
        for action in plan.actions:
            if isinstance(action, Request):
                name, gang = action.launch.node, action.launch.gang
                if name in fleet.nodes or name in asked:
                    raise InvariantError(f"{name} is requested twice")
                asked.add(name)
                if gang is not None:
                    gangs[gang] += 1
            else:
                _check(action, fleet)
        if asked:
            machines = len(asked) + fleet.present_in(plan.pool)
            if machines > pool.nodes_max:
                raise InvariantError(f"{pool.name} would hold {machines} of {pool.nodes_max}")
        # Each gang is requested as a whole, or completes one requested before.
        for gang, count in gangs.items():
            begun = any(node.gang == gang for node in fleet.in_pool(plan.pool).values())
            if not begun and count != gang.nodes:
                raise InvariantError(f"{gang.id} would begin with {count} of {gang.nodes}")


def _check(action: Action, fleet: Fleet) -> None:
    match action:
        case RetryLaunch(launch=launch):
            node = fleet.nodes[launch.node]
            if node.phase is not Phase.REQUESTED or node.launch is not None:
                raise InvariantError(f"{node.id} would be bought twice")
        case Retire(node=name):
            if not fleet.nodes[name].counts:
                raise InvariantError(f"{name} is retired twice")
        case Cordon(node=name) if fleet.nodes[name].cordoned is not None:
            raise InvariantError(f"{name} is cordoned twice")
        case Recover(recovery=recovery) if fleet.nodes[recovery.node].recovery is not None:
            raise InvariantError(f"{recovery.node} is repaired twice at once")
        case Abandon(gang=gang, nodes=names) if any(not fleet.nodes[x].waiting for x in names):
            raise InvariantError(f"{gang.id} is given up though it is complete")
        case Release(gang=gang, nodes=names) if len(set(names)) != gang.nodes:
            raise InvariantError(f"{gang.id} is released with {len(names)} of {gang.nodes}")
        case Drain(node=name) if fleet.nodes[name].phase is not Phase.READY:
            raise InvariantError(f"{name} is drained while {fleet.nodes[name].phase}")
        case Terminate(node=name) if fleet.nodes[name].retiring is None:
            raise InvariantError(f"{name} is terminated though it should stay")
