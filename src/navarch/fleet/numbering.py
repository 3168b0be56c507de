"""Pools of which only the number of the next node has changed, as it does with every request."""

from collections.abc import Iterable, Mapping

from navarch.core.evolve import evolve
from navarch.core.ids import PoolName
from navarch.core.pool import Pool


def is_same_but_for_its_count(before: Pool | None, pool: Pool) -> bool:
    """Return whether `pool` was there before and has at most counted on since.

    Nothing is decided by that count: it only makes the next name.
    """
    if before is None or before is pool:
        return before is pool
    return evolve(before, next_index=pool.next_index) == pool


def have_only_counted_on(before: Mapping[PoolName, Pool], pools: Iterable[Pool]) -> bool:
    """Return whether each of those `pools` was there before and has at most counted on since."""
    return all(is_same_but_for_its_count(before.get(pool.name), pool) for pool in pools)


def are_same_but_for_their_counts(
    before: Mapping[PoolName, Pool], pools: Mapping[PoolName, Pool]
) -> bool:
    """Return whether there are the same pools as before, and nobody wants them otherwise."""
    return before is pools or (
        len(before) == len(pools)
        and all(is_same_but_for_its_count(before.get(name), x) for name, x in pools.items())
    )
