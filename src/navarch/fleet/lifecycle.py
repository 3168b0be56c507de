"""The life of a node: the only module that changes a node's phase.

requested -> booting -> ready -> draining -> terminating -> gone. `NEXT_PHASES` lists the legal
transitions, and an illegal one is a bug. A function that records its transition returns the node
and the event; the callers of the others record the event themselves.
"""

from datetime import datetime
from typing import Unpack

from navarch.core.event import Event, Subject, about
from navarch.core.ids import NodeId
from navarch.core.launch import Launch
from navarch.core.node import Along, Node, Phase, Retirement
from navarch.core.records import evolve


def request(
    launch: Launch,
    *,
    reason: str,
    replaces: NodeId | None = None,
    waiting: bool = False,
    now: datetime,
) -> tuple[Node, Event]:
    """Return a new node with its machine requested by `launch`."""
    node = Node(
        id=launch.node,
        pool=launch.pool,
        phase=Phase.REQUESTED,
        since=now,
        created_at=now,
        launch=launch,
        replaces=replaces,
        gang=launch.gang,
        waiting=waiting,
    )
    cause = about("node", replaces) if replaces else about("pool", launch.pool)
    if replaces:
        reason = f"replaces {replaces}; {reason}"
    return node, node_event(node, "node.requested", reason, now=now, because=(cause,))


def launched(node: Node, launch: Launch, *, now: datetime) -> Node:
    """Return `node` after its provider created the machine of `launch`."""
    if node.phase is Phase.REQUESTED:
        waiting = node if node.refused is None else evolve(node, refused=None)
        return waiting.move_to(Phase.BOOTING, at=now, launch=launch)
    return node if launch is node.launch else evolve(node, launch=launch)


def registered(node: Node, *, now: datetime) -> Node:
    """Return `node` after its agent registered."""
    launch = node.launch
    if launch is not None:
        launch = evolve(launch, registered_at=now, pending=False, progress=None)
    return node.move_to(Phase.READY, at=now, launch=launch)


def retire(node: Node, retirement: Retirement, *, now: datetime) -> Node:
    """Return `node` marked for removal: cordoned, and terminated at once if it never served."""
    leaving = evolve(node, retiring=retirement, cordoned=node.cordoned or retirement.reason)
    if node.phase is Phase.REQUESTED and (node.launch is None or not node.launch.open):
        return leaving.move_to(Phase.GONE, at=now)
    if node.phase in (Phase.REQUESTED, Phase.BOOTING):
        return leaving.move_to(Phase.TERMINATING, at=now)
    return leaving


def drain(node: Node, reason: str, *, now: datetime, **along: Unpack[Along]) -> tuple[Node, Event]:
    """Return `node` while its work moves elsewhere."""
    after = node.move_to(Phase.DRAINING, at=now, **along)
    return after, node_event(after, "node.draining", reason, now=now)


def undrain(node: Node, *, now: datetime) -> Node:
    """Return `node` back in service, unless it is not draining or is to be removed."""
    if node.phase is Phase.DRAINING and node.retiring is None:
        return node.move_to(Phase.READY, at=now)
    return node


def terminate(
    node: Node, reason: str, *, now: datetime, **along: Unpack[Along]
) -> tuple[Node, Event]:
    """Return `node` while its machine is terminated."""
    after = node.move_to(Phase.TERMINATING, at=now, **along)
    return after, node_event(after, "node.terminating", reason, now=now)


def gone(node: Node, reason: str, *, now: datetime) -> Node:
    """Return `node` after its machine ceased to exist, with the bill closed."""
    launch = node.launch
    if launch is not None and launch.launched_at is not None and launch.ended_at is None:
        launch = evolve(launch, ended_at=now)
    retiring = node.retiring or Retirement(reason=reason)
    return node.move_to(Phase.GONE, at=now, launch=launch, retiring=retiring)


def forgotten(node: Node, reason: str, *, now: datetime) -> tuple[Node, Event]:
    """Return a self-registered node whose host is no longer part of the fleet.

    Its machine is not touched. An agent that reports again registers a new node of that name.
    """
    assert node.self_registered, f"{node.id} was bought"
    after = gone(node, reason, now=now)
    return after, node_event(after, "node.forgotten", reason, now=now)


def node_event(
    node: Node, kind: str, reason: str, *, now: datetime, because: tuple[Subject, ...] = ()
) -> Event:
    """Return the event that records what happened to `node`."""
    facts = {"phase": str(node.phase)}
    if node.launch is not None:
        facts["launch"] = node.launch.token
    return Event(
        at=now, about=about("node", node.id), kind=kind, reason=reason, because=because, facts=facts
    )
