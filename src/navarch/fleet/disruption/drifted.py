"""Nodes that their pool would not buy today: another offering, user data or image."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from navarch.core.disruption import Cause
from navarch.core.launch import Offering
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.plan import Candidate


def drifted(pool: Pool, nodes: Iterable[Node]) -> Iterator[Candidate]:
    """Yield the nodes that would not be bought today. A changed price alone is no drift."""
    if not pool.disruption.replace_drifted:
        return
    listed = [_kind(offering) for offering in pool.offerings]
    digest = pool.setup_digest
    for node in nodes:
        if node.launch is None:
            continue
        if _kind(node.launch.offering) not in listed:
            reason = f"drifted: the pool no longer lists {node.launch.offering}"
            yield Candidate(node=node.id, cause=Cause.DRIFTED, reason=reason)
        elif node.launch.setup_digest not in (None, digest):
            # The user data of machines bought before it was recorded is unknown.
            reason = "drifted: the pool's user data or image has changed since it was bought"
            yield Candidate(node=node.id, cause=Cause.DRIFTED, reason=reason)


def _kind(offering: Offering) -> Offering:
    # A catalogue may correct its data on GPUs; the machine stays the same.
    return evolve(offering, price_per_hour=Decimal(0), gpus=0, gpu_type="")
