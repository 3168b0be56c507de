"""Comparison of pools that ignores the number of the next node."""

from collections.abc import Iterable, Mapping

from navarch.core.evolve import evolve
from navarch.core.ids import PoolName
from navarch.core.pool import Pool


def is_same_but_for_its_count(before: Pool | None, pool: Pool) -> bool:
    """Return whether `pool` existed before and differs at most in the number of its next node.

    No decision depends on that number: it only makes the next name.
    """
    if before is None or before is pool:
        return before is pool
    return evolve(before, next_index=pool.next_index) == pool


def reshaped(before: Mapping[PoolName, Pool], pools: Iterable[Pool]) -> list[Pool]:
    """Return those of `pools` that are new or have changed in more than their count."""
    return [x for x in pools if not is_same_but_for_its_count(before.get(x.name), x)]


def are_same_but_for_their_counts(
    before: Mapping[PoolName, Pool], pools: Mapping[PoolName, Pool]
) -> bool:
    """Return whether the pools are the same as before, except for their counts."""
    return before is pools or (
        len(before) == len(pools)
        and all(is_same_but_for_its_count(before.get(name), x) for name, x in pools.items())
    )
