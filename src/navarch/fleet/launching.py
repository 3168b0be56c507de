"""The answer of a provider to a launch, as a change of the node."""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime

from navarch.core.errors import ProviderError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import ProviderName, Token
from navarch.core.instance import Instance
from navarch.core.launch import Launch, refusal_of
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.instance_state import bought
from navarch.fleet.stockouts import refusal_facts


def calls_for(
    launches: Iterable[Launch],
    machines_per_call: Mapping[ProviderName, int],
    *,
    alone: Container[Token] = (),
) -> list[list[Launch]]:
    """Return the launches of each provider call, in order.

    A call is for one pool, gang and offering, in the same zones. It is for one launch at providers
    that are not in `machines_per_call`, and for the launches in `alone`.
    """
    calls: list[list[Launch]] = []
    open_calls: dict[object, list[Launch]] = {}
    for launch in launches:
        alike = (launch.pool, launch.offering, launch.zones, launch.gang)
        size = 1 if launch.token in alone else machines_per_call.get(launch.offering.provider, 1)
        call = open_calls.setdefault(alike, []) if size > 1 else []
        if not call:
            calls.append(call)
        call.append(launch)
        if len(call) >= size > 1:
            del open_calls[alike]
    return calls


def accepted(node: Node, token: Token, instance: Instance, *, now: datetime) -> Change | None:
    """Return the change that records the machine; None if it is recorded already."""
    if not _concerns(node, token):
        return None
    assert node.launch is not None, node.id
    launch = bought(node.launch, instance, now=now)
    after = lifecycle.launched(node, launch, now=now)
    event = Event(
        at=now,
        about=about("node", node.id),
        kind="node.bought",
        reason=f"{launch.offering} as {instance.id}",
        because=(about("launch", token),),
        facts={"phase": str(after.phase), "instance": instance.id},
    )
    return Change(nodes=[after], events=[event])


def refused(node: Node, token: Token, error: ProviderError, *, now: datetime) -> Change | None:
    """Return the change that records a refusal. The market decides when to retry."""
    if not _concerns(node, token):
        return None
    assert node.launch is not None, node.id
    why = f"{type(error).__name__}: {error}"
    launch = evolve(node.launch, refused=why, refusal=refusal_of(error), refused_at=now)
    event = Event(
        at=now,
        about=about("launch", token),
        kind="launch.refused",
        reason=why,
        because=(about("node", node.id),),
        facts=refusal_facts(launch),
    )
    after = evolve(node, launch=None, refused=launch, attempts=node.attempts + 1, retry_at=now)
    if node.phase is Phase.TERMINATING:
        after = lifecycle.gone(after, "no machine was bought", now=now)
    return Change(nodes=[after], launches=[launch], events=[event])


def withdrawn(node: Node, token: Token, why: str, *, now: datetime) -> Change | None:
    """Return the change that closes a launch before its provider was called."""
    if not _concerns(node, token):
        return None
    assert node.launch is not None, node.id
    launch = evolve(node.launch, refused=f"not requested: {why}", refused_at=now)
    event = Event(
        at=now,
        about=about("launch", token),
        kind="launch.withdrawn",
        reason=f"not requested, because another launch was refused there: {why}",
        because=(about("node", node.id),),
    )
    after = evolve(node, launch=None, attempts=node.attempts + 1, retry_at=now)
    if node.phase is Phase.TERMINATING:
        after = lifecycle.gone(after, "no machine was bought", now=now)
    return Change(nodes=[after], launches=[launch], events=[event])


def never_bought(node: Node, token: Token, *, now: datetime) -> Change | None:
    """Return the change that ends a node after its machine was never created."""
    if not _concerns(node, token) or node.phase is not Phase.TERMINATING:
        return None
    assert node.launch is not None, node.id
    launch = evolve(node.launch, refused="given up before it was bought")
    event = Event(
        at=now,
        about=about("node", node.id),
        kind="node.gone",
        reason="no machine was bought for it",
        facts={"phase": str(Phase.GONE)},
    )
    after = lifecycle.gone(evolve(node, launch=launch), "no machine was bought", now=now)
    return Change(nodes=[after], launches=[launch], events=[event])


def _concerns(node: Node, token: Token) -> bool:
    return node.launch is not None and node.launch.token == token and node.launch.open
