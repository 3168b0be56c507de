"""Laws that every plan must keep, whoever wrote it."""

from collections import Counter
from collections.abc import Iterable

from navarch.core.errors import InvariantError
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId
from navarch.core.node import Phase
from navarch.fleet.plan import (
    AskAgain,
    Cordon,
    Drain,
    GiveUp,
    Plan,
    Recover,
    Release,
    Request,
    Retire,
    Terminate,
)


def check_plans(plans: Iterable[Plan], fleet: Fleet) -> None:
    """Raise InvariantError if any of `plans` would break a law."""
    for plan in plans:
        _check_plan(plan, fleet)


def _check_plan(plan: Plan, fleet: Fleet) -> None:
    _check_requests(plan, fleet)
    for action in plan.actions:
        match action:
            case AskAgain(launch=launch):
                node = fleet.nodes[launch.node]
                if node.phase is not Phase.REQUESTED or node.launch is not None:
                    raise InvariantError(f"{node.id} would be bought twice")
            case Cordon(node=name) if fleet.nodes[name].cordoned is not None:
                raise InvariantError(f"{name} is cordoned twice")
            case Recover(recovery=recovery) if fleet.nodes[recovery.node].recovery is not None:
                raise InvariantError(f"{recovery.node} is mended twice at once")
            case Retire(node=name) if not fleet.nodes[name].counts:
                raise InvariantError(f"{name} is retired twice")
            case GiveUp(gang=gang, nodes=names) if any(not fleet.nodes[x].waiting for x in names):
                raise InvariantError(f"{gang.id} is given up though it is complete")
            case Release(gang=gang, nodes=names) if len(set(names)) != gang.nodes:
                raise InvariantError(f"{gang.id} is released with {len(names)} of {gang.nodes}")
            case Drain(node=name) if fleet.nodes[name].phase is not Phase.READY:
                raise InvariantError(f"{name} is drained while {fleet.nodes[name].phase}")
            case Terminate(node=name) if fleet.nodes[name].retiring is None:
                raise InvariantError(f"{name} is terminated though it should stay")


def _check_requests(plan: Plan, fleet: Fleet) -> None:
    pool = fleet.pools[plan.pool]
    names = [action.launch.node for action in plan.actions if isinstance(action, Request)]
    if not names:
        return
    asked: set[NodeId] = set()
    for name in names:
        if name in fleet.nodes or name in asked:
            raise InvariantError(f"{name} is requested twice")
        asked.add(name)
    machines = len(names) + fleet.present_in(plan.pool)
    _check_gangs(plan, fleet)
    if machines > pool.nodes_max:
        raise InvariantError(f"{pool.name} would hold {machines} of {pool.nodes_max}")


def _check_gangs(plan: Plan, fleet: Fleet) -> None:
    """Nobody asks for a part of a gang: all of it, or what is missing of one that has begun."""
    gangs = [action.launch.gang for action in plan.actions if isinstance(action, Request)]
    for gang, count in Counter(gangs).items() if any(gangs) else ():
        if gang is None:
            continue
        begun = any(node.gang == gang for node in fleet.in_pool(plan.pool).values())
        if not begun and count != gang.nodes:
            raise InvariantError(f"{gang.id} would begin with {count} of {gang.nodes}")
