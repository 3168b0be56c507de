"""Leaks: machines that are paid for and that no node of the fleet lays claim to."""

from collections.abc import Collection

from navarch.sim.figures.truth import Lease, Truth


def leaks(truth: Truth, claimed: Collection[str]) -> list[Lease]:
    """Return the purchases still running whose tokens are not among those `claimed`."""
    return [
        lease
        for lease in truth.leases
        if lease.token and lease.ended is None and lease.token not in claimed
    ]
