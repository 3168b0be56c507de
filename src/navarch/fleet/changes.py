"""Plans written down: the records and events to commit before anything is done."""

from collections.abc import Iterable
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.held import Held, HeldBy
from navarch.core.launch import Launch
from navarch.core.node import Node, Retirement
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.core.refusal import Refusal
from navarch.fleet import lifecycle
from navarch.fleet.drains import drains_at_once
from navarch.fleet.lifecycle import node_event
from navarch.fleet.plan import (
    Abandon,
    Cordon,
    Defer,
    Drain,
    Hold,
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
from navarch.fleet.stockout_journal import closure_facts

NodeAction = RetryLaunch | Cordon | Uncordon | Recover | Defer | Drain | Terminate


def changes(plans: Iterable[Plan], fleet: Fleet, *, now: datetime, guarded: bool = True) -> Change:
    """Return the change that writes `plans` down, guarding the pools if they counted nodes."""
    pools: list[Pool] = []
    nodes: list[Node] = []
    launches: list[Launch] = []
    recoveries: list[Recovery] = []
    events: list[Event] = []
    guards = []
    for plan in plans:
        if not plan.actions:
            continue
        guards.append(plan.pool)
        pool = after = fleet.pools[plan.pool]
        requests = 0
        for action in plan.actions:
            if isinstance(action, Request):
                requests += 1
                nodes.append(_requested(action, now, events))
                events += _news_of_gang(action, events, fleet, now)
                continue
            if isinstance(action, (Hold, SetLaunchBreaker)):
                after, event = _pool_written(after, action, now)
                events.append(event)
                continue
            if isinstance(action, (Release, Abandon)):
                written, news = _gang_written(action, fleet, now)
                nodes += written
                events += news
                launches += [node.launch for node in written if node.gone and node.launch]
                continue
            if isinstance(action, Retire):
                node = _retired(action, fleet.nodes[action.node], now, events)
            else:
                node, news = _written(action, fleet, now)
                events += news
                if isinstance(action, Recover):
                    recoveries.append(action.recovery)
            nodes.append(node)
            if node.gone and node.launch is not None:
                launches.append(node.launch)
        if requests:
            after = evolve(after, next_index=pool.next_index + requests)
        if after is not pool and after != pool:
            pools.append(after)
    return Change(
        pools=pools,
        nodes=nodes,
        launches=launches,
        recoveries=recoveries,
        events=events,
        guards=guards if guarded else (),
    )


def _requested(action: Request, now: datetime, events: list[Event]) -> Node:
    """Return the node that `action` requests, and record it with its launch."""
    node, event = lifecycle.request(
        action.launch,
        reason=action.reason,
        replaces=action.replaces,
        waiting=action.waiting,
        now=now,
    )
    events += [event, _asked(action, now)]
    return node


def _retired(action: Retire, node: Node, now: datetime, events: list[Event]) -> Node:
    """Return `node` on its way out, with the news of that."""
    reason = action.reason
    retirement = Retirement(
        reason=reason,
        surplus=action.surplus,
        urgent=action.urgent,
        failed_at=now if action.failed else None,
    )
    because = (about("pool", node.pool),) if action.surplus and node.pool else ()
    if not drains_at_once(node, retirement):
        before = _acted(node, now) if action.automatic else node
        after = lifecycle.retire(before, retirement, now=now)
        events.append(node_event(after, "node.retiring", reason, now=now, because=because))
        return after
    # Its drain begins in the same commit, since nothing has to happen before.
    after, event = lifecycle.drain(
        node,
        reason,
        now=now,
        retiring=retirement,
        cordoned=node.cordoned or reason,
        acted_at=now if action.automatic else node.acted_at,
        held=None if action.automatic else node.held,
    )
    events.append(node_event(node, "node.retiring", reason, now=now, because=because))
    events.append(event)
    return after


def _written(action: NodeAction, fleet: Fleet, now: datetime) -> tuple[Node, list[Event]]:
    """Return the node that an action is about, as it is after it, with the news of that."""
    match action:
        case RetryLaunch(launch=launch, reason=reason):
            node = evolve(fleet.nodes[launch.node], launch=launch, retry_at=None)
            return node, [
                node_event(node, "node.asked_again", reason, now=now),
                _asked(action, now),
            ]
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
            return node, [node_event(node, *_held_back(held, reason), now=now)]
        case Drain(node=name, reason=reason):
            node, event = lifecycle.drain(fleet.nodes[name], reason, now=now)
            return node, [event]
        case Terminate(node=name, reason=reason):
            node, event = lifecycle.terminate(fleet.nodes[name], reason, now=now)
            return node, [event]


def _news_of_gang(
    action: Request, events: Iterable[Event], fleet: Fleet, now: datetime
) -> list[Event]:
    """Return the news that a gang is asked for, with the first of its members."""
    gang, pool = action.launch.gang, action.launch.pool
    if gang is None or not action.waiting:
        return []
    subject = about("gang", gang.id)
    if any(event.about == subject for event in events):
        return []
    if any(node.gang == gang for node in fleet.in_pool(pool).values()):
        return []
    reason = f"{gang.nodes} machines within one block, all or none: {gang.offering}"
    because = (about("pool", pool),)
    return [Event(at=now, about=subject, kind="gang.asked", reason=reason, because=because)]


def _gang_written(
    action: Release | Abandon, fleet: Fleet, now: datetime
) -> tuple[list[Node], list[Event]]:
    gang = action.gang
    subject = about("gang", gang.id)
    members = [fleet.nodes[name] for name in action.nodes]
    if isinstance(action, Release):
        kind, facts = "gang.complete", {}
        after = [evolve(node, waiting=False) for node in members]
    else:
        kind = "gang.given_up"
        facts = closure_facts(gang.offering, Refusal.BLOCK, action.began_at, gang.nodes)
        retirement = Retirement(reason=f"{gang.id} was given up: {action.reason}", surplus=True)
        after = [lifecycle.retire(node, retirement, now=now) for node in members]
    event = Event(
        at=now,
        about=subject,
        kind=kind,
        reason=action.reason,
        # Not its members: each of them tells of the gang, and sixteen stories would bury this one.
        facts=facts,
    )
    verb = "node.released" if isinstance(action, Release) else "node.retiring"
    return after, [
        event,
        *(node_event(x, verb, action.reason, now=now, because=(subject,)) for x in after),
    ]


def _acted(node: Node, now: datetime) -> Node:
    """Return `node` with the mark by which automation counts what it does."""
    return evolve(node, acted_at=now, held=None)


def _held_back(held: Held | None, reason: str) -> tuple[str, str]:
    if held is None:
        return "node.unheld", reason
    wanted = _PAST.get(held.action, held.action)
    if held.by is HeldBy.DRY_RUN:
        return "node.would_have", f"would have {wanted} it: {held.reason} ({held.because})"
    return "node.held", f"not {wanted}: {held.because}; it is {held.reason}"


_PAST = {
    "cordon": "cordoned",
    "replace": "replaced",
    "recover": "tried to mend",
    "remediate": "remediated",
}


def _pool_written(pool: Pool, action: Hold | SetLaunchBreaker, now: datetime) -> tuple[Pool, Event]:
    reason = action.reason
    if isinstance(action, Hold):
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


def _asked(action: Request | RetryLaunch, now: datetime) -> Event:
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
