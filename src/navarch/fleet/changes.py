"""Plans as changes: the records and events to commit before any effect."""

from collections.abc import Iterable
from datetime import datetime

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.launch import Gang, Refusal
from navarch.core.node import Node, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.drains import drains_at_once
from navarch.fleet.lifecycle import node_event
from navarch.fleet.plan import (
    Abandon,
    Cordon,
    Defer,
    Drain,
    PauseAutomation,
    Plan,
    Recover,
    Release,
    Request,
    Retire,
    RetryLaunch,
    SetLaunchBreaker,
    Terminate,
    Uncordon,
)
from navarch.fleet.stockouts import closure_facts

NodeAction = RetryLaunch | Cordon | Uncordon | Recover | Defer | Retire | Drain | Terminate


def changes(plans: Iterable[Plan], fleet: Fleet, *, now: datetime, guarded: bool = True) -> Change:
    """Return the change that records `plans`.

    With `guarded`, the change conflicts with every other change of the planned pools, which is
    right for plans that count nodes.
    """
    acting = [plan for plan in plans if plan.actions]
    pools: list[Pool] = []
    nodes: list[Node] = []
    events: list[Event] = []
    begun: set[str] = set()
    for plan in acting:
        pool = after = fleet.pools[plan.pool]
        requests = 0
        for action in plan.actions:
            match action:
                case PauseAutomation() | SetLaunchBreaker():
                    after, event = _pool_written(after, action, now)
                    events.append(event)
                case Release() | Abandon():
                    members, news = _gang_written(action, fleet, now)
                    nodes += members
                    events += news
                case Request():
                    requests += 1
                    node, event = lifecycle.request(
                        action.launch,
                        reason=action.reason,
                        replaces=action.replaces,
                        waiting=action.waiting,
                        now=now,
                    )
                    nodes.append(node)
                    events += [event, _launch_requested(action, now)]
                    gang = action.launch.gang
                    if gang is not None and gang.id not in begun and _begins(action, gang, fleet):
                        begun.add(gang.id)
                        events.append(_gang_requested(action, gang, now))
                case _:
                    node, news = _written(action, fleet, now)
                    nodes.append(node)
                    events += news
        if requests:
            after = evolve(after, next_index=pool.next_index + requests)
        if after != pool:
            pools.append(after)
    return Change(
        pools=pools,
        nodes=nodes,
        launches=[node.launch for node in nodes if node.gone and node.launch is not None],
        recoveries=[x.recovery for plan in acting for x in plan.actions if isinstance(x, Recover)],
        events=events,
        guards=[plan.pool for plan in acting] if guarded else (),
    )


def _begins(action: Request, gang: Gang, fleet: Fleet) -> bool:
    """Return whether no member of `gang` was requested before `action`."""
    members = fleet.in_pool(action.launch.pool).values()
    return action.waiting and not any(node.gang == gang for node in members)


def _gang_requested(action: Request, gang: Gang, now: datetime) -> Event:
    return Event(
        at=now,
        about=about("gang", gang.id),
        kind="gang.asked",
        reason=f"{gang.nodes} machines within one block, all or none: {gang.offering}",
        because=(about("pool", action.launch.pool),),
    )


def _retired(action: Retire, node: Node, now: datetime) -> tuple[Node, list[Event]]:
    """Return `node` once it is to be removed, with its events."""
    reason = action.reason
    retirement = Retirement(
        reason=reason,
        surplus=action.surplus,
        urgent=action.urgent,
        failed_at=now if action.failed else None,
        decided_at=now,
    )
    because = (about("pool", node.pool),) if action.surplus and node.pool else ()
    if not drains_at_once(node, retirement):
        before = _acted(node, now) if action.automatic else node
        after = lifecycle.retire(before, retirement, now=now)
        return after, [node_event(after, "node.retiring", reason, now=now, because=because)]
    # Nothing has to happen before its drain, which begins in the same commit.
    after, event = lifecycle.drain(
        node,
        reason,
        now=now,
        retiring=retirement,
        cordoned=node.cordoned or reason,
        acted_at=now if action.automatic else node.acted_at,
        held=None if action.automatic else node.held,
    )
    return after, [node_event(node, "node.retiring", reason, now=now, because=because), event]


def _written(action: NodeAction, fleet: Fleet, now: datetime) -> tuple[Node, list[Event]]:
    """Return the node of `action` after it, with its events."""
    match action:
        case Retire():
            return _retired(action, fleet.nodes[action.node], now)
        case RetryLaunch(launch=launch, reason=reason):
            node = evolve(fleet.nodes[launch.node], launch=launch, retry_at=None)
            retried = node_event(node, "node.asked_again", reason, now=now)
            return node, [retried, _launch_requested(action, now)]
        case Cordon(node=name, reason=reason, automatic=automatic):
            node = _acted(fleet.nodes[name], now) if automatic else fleet.nodes[name]
            node = evolve(node, cordoned=reason)
            return node, [node_event(node, "node.cordoned", reason, now=now)]
        case Uncordon(node=name, reason=reason):
            node = evolve(fleet.nodes[name], cordoned=None)
            return node, [node_event(node, "node.uncordoned", reason, now=now)]
        case Recover(recovery=recovery):
            node = _acted(fleet.nodes[recovery.node], now)
            node = evolve(node, recovery=recovery.id, cordoned=node.cordoned or recovery.cordon)
            text = f"{recovery.step.replace('_', ' ')} first: {recovery.cause}"
            return node, [node_event(node, "node.recovering", text, now=now)]
        case Defer(node=name, held=held, reason=reason):
            node = evolve(fleet.nodes[name], held=held)
            return node, [node_event(node, *_deferred(held, reason), now=now)]
        case Drain(node=name, reason=reason):
            node, event = lifecycle.drain(fleet.nodes[name], reason, now=now)
            return node, [event]
        case Terminate(node=name, reason=reason):
            node, event = lifecycle.terminate(fleet.nodes[name], reason, now=now)
            return node, [event]


def _gang_written(
    action: Release | Abandon, fleet: Fleet, now: datetime
) -> tuple[list[Node], list[Event]]:
    gang = action.gang
    subject = about("gang", gang.id)
    members = [fleet.nodes[name] for name in action.nodes]
    facts: dict[str, str] = {}
    if isinstance(action, Release):
        kind, node_kind = "gang.complete", "node.released"
        after = [evolve(node, waiting=False) for node in members]
    else:
        kind, node_kind = "gang.given_up", "node.retiring"
        facts = closure_facts(gang.offering, Refusal.BLOCK, action.began_at, gang.nodes)
        retirement = Retirement(reason=f"{gang.id} was given up: {action.reason}", surplus=True)
        after = [lifecycle.retire(node, retirement, now=now) for node in members]
    # The members are not listed as causes: each of their events names the gang already.
    event = Event(at=now, about=subject, kind=kind, reason=action.reason, facts=facts)
    because = (subject,)
    news = [node_event(x, node_kind, action.reason, now=now, because=because) for x in after]
    return after, [event, *news]


def _acted(node: Node, now: datetime) -> Node:
    """Return `node` with the mark by which budgets count automatic actions."""
    return evolve(node, acted_at=now, held=None)


def _deferred(held: Deferred | None, reason: str) -> tuple[str, str]:
    if held is None:
        return "node.unheld", reason
    wanted = _PAST.get(held.action, held.action)
    if held.by is DeferredBy.DRY_RUN:
        return "node.would_have", f"would have {wanted} it: {held.reason} ({held.because})"
    return "node.held", f"not {wanted}: {held.because}; it is {held.reason}"


_PAST = {
    "cordon": "cordoned",
    "replace": "replaced",
    "recover": "repaired",
    "remediate": "remediated",
}


def _pool_written(
    pool: Pool, action: PauseAutomation | SetLaunchBreaker, now: datetime
) -> tuple[Pool, Event]:
    reason = action.reason
    if isinstance(action, PauseAutomation):
        after = evolve(pool, held=reason, unreachable=action.unreachable)
        if pool.unreachable and not action.unreachable:
            after = evolve(after, reachable_since=now)
        kind = "pool.released" if reason is None else "pool.held"
        words = reason or "nothing is held back any more"
    else:
        after = evolve(pool, braked=reason)
        kind = "pool.unbraked" if reason is None else "pool.braked"
        words = reason or "machines come up again, or may be tried again"
    return after, Event(at=now, about=about("pool", pool.name), kind=kind, reason=words)


def _launch_requested(action: Request | RetryLaunch, now: datetime) -> Event:
    launch = action.launch
    facts = {"price_per_hour": str(launch.price_per_hour)}
    if action.table:
        facts["options"] = action.table
    return Event(
        at=now,
        about=about("launch", launch.token),
        kind="launch.asked",
        reason=f"a machine for {launch.node}: {launch.offering}",
        because=(about("node", launch.node),),
        facts=facts,
    )
