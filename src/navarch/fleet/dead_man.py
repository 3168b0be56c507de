"""The dead man's switch of silent nodes: what is to be expected of their machines."""

from datetime import datetime, timedelta

from navarch.core.dead_man import IDLE_FOR
from navarch.core.duration import render_duration
from navarch.core.node import Node
from navarch.ports.witness import Observation

MARGIN = timedelta(minutes=15)
"""More than an agent takes to find out that it is alone, and a machine to shut down."""


def expected_of(node: Node, *, alone_since: datetime, now: datetime) -> Observation | None:
    """Return what the lease of an idle machine lets expect; None if it has no lease.

    It proves nothing: work that began after the last heartbeat keeps the machine running.
    """
    if not node.dead_man_s:
        return None
    term = timedelta(seconds=node.dead_man_s)
    due_at = alone_since + term + IDLE_FOR + MARGIN
    lease = f"its dead-man lease of {render_duration(term)}"
    at = f"{due_at:%Y-%m-%d %H:%M} UTC"
    if now < due_at:
        return Observation(
            alive=None, reason=f"{lease} shuts it down by {at}, unless it has work by then"
        )
    return Observation(
        alive=None, reason=f"{lease} has shut it down by {at}, unless work kept it running"
    )
