"""Quotas of teams: how many GPUs the pools of a team may have."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from navarch.core.errors import NotPossibleError
from navarch.core.pool import Pool
from navarch.ports.store import Store

Quotas = Mapping[str, int]
"""The most GPUs by team."""


class TeamQuotas:
    """Checks changes of pools against the quotas, one change at a time."""

    def __init__(self, store: Store, quotas: Callable[[], Quotas]) -> None:
        """`store` is the whole store: a caller may see only some pools of its team."""
        self._store = store
        self._quotas = quotas
        self.turn = asyncio.Lock()
        """Held from the check to the commit, so that two changes cannot share what is left."""

    def check(self, after: Pool) -> None:
        """Raise NotPossibleError if `after` would take its team over its quota."""
        problem = over_quota(after, self._store.fleet().pools.values(), self._quotas())
        if problem is not None:
            raise NotPossibleError(problem)


def over_quota(after: Pool, pools: Iterable[Pool], quotas: Quotas) -> str | None:
    """Return why a pool may not become `after`, or None.

    A change that does not grow what the pool takes of the quota is always possible, also for a
    team that is over its quota.
    """
    quota = quotas.get(after.team)
    if quota is None:
        return None
    others, before = 0, 0
    for pool in pools:
        if pool.team == after.team and pool.name != after.name:
            others += gpus_taken(pool)
        elif pool.team == after.team:
            before = gpus_taken(pool)
    taken = gpus_taken(after)
    if taken <= before or others + taken <= quota:
        return None
    return (
        f"team {after.team} has a quota of {quota} GPUs: its other pools take {others}, so pool "
        f"{after.name} cannot take {taken}; scale another pool down, or ask an administrator to "
        "raise server.access.quotas"
    )


def gpus_taken(pool: Pool) -> int:
    """Return how many GPUs a pool takes of the quota: as many as it can have by itself.

    An autoscaler may grow its pool to the maximum, at any time and without a caller.
    """
    if pool.deleted:
        return 0
    nodes = pool.nodes_max if pool.autoscaling is not None else pool.target
    return nodes * max(offering.gpus for offering in pool.offerings)
