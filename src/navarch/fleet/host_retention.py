"""How long a silent host that registered by itself stays in the fleet."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from navarch.core.duration import render_duration
from navarch.core.event import Event
from navarch.core.node import Node
from navarch.fleet import lifecycle
from navarch.fleet.silence import heartbeat_condition

KEEP_HOSTS = timedelta(days=7)
"""How long a silent host is kept by default: longer than a holiday weekend without power."""


def silent_since(node: Node) -> datetime | None:
    """Return since when a self-registered node is silent; None for every other node."""
    if node.gone or not node.self_registered:
        return None
    silence = heartbeat_condition(node)
    return None if silence is None else silence.since


def forget_silent_hosts(
    nodes: Iterable[Node], retention: timedelta | None, *, now: datetime
) -> list[tuple[Node, Event]]:
    """Return the nodes that are forgotten now, with the events that explain it.

    Only silence ends the stay of a host: a node that reports is kept, however unhealthy it is.
    Machines that Navarch bought are never forgotten, because they cost money until they end.
    """
    if retention is None:
        return []
    found = []
    for node in nodes:
        since = silent_since(node)
        if since is None or now < since + retention:
            continue
        reason = (
            f"its host has not reported since {since:%Y-%m-%d %H:%M} UTC, for longer than "
            f"{render_duration(retention)} (server.forget_hosts_after); it registers anew if it "
            "reports again"
        )
        found.append(lifecycle.forgotten(node, reason, now=now))
    return found
