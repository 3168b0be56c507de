"""Laws that every plan must obey, from whichever planner."""

from collections import Counter
from collections.abc import Iterable

from navarch.core.errors import InvariantError
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId
from navarch.core.launch import Gang
from navarch.core.node import Phase
from navarch.fleet.plan import (
    Abandon,
    Action,
    Cordon,
    Drain,
    Plan,
    Recover,
    Release,
    Request,
    Retire,
    RetryLaunch,
    Terminate,
)


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
        machines = len(asked) + fleet.present_in(plan.pool)
        if asked and machines > pool.nodes_max:
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
