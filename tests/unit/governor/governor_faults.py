"""Nodes with faults, for tests of the governor."""

from datetime import datetime

from navarch.core.health import Condition, Health
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.testing.worlds import NOW


def faulty(node: Node, code: int = 79, since: datetime = NOW) -> Node:
    """Return `node` with one more fatal XID."""
    condition = Condition(
        check=f"xid/{code}/GPU-0",
        health=Health.UNHEALTHY,
        reason=f"XID {code}",
        since=since,
        fatal=True,
        facts={"code": str(code), "kind": "xid"},
    )
    return evolve(node, conditions=(*node.conditions, condition), health=Health.UNHEALTHY)
