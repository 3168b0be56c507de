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


def reshaped(before: Mapping[PoolName, Pool], pools: Iterable[Pool]) -> list[Pool]:
    """Return those of `pools` that are new, or of which somebody wants something else by now."""
    return [x for x in pools if not is_same_but_for_its_count(before.get(x.name), x)]


def are_same_but_for_their_counts(
    before: Mapping[PoolName, Pool], pools: Mapping[PoolName, Pool]
) -> bool:
    """Return whether there are the same pools as before, and nobody wants them otherwise."""
    return before is pools or (
        len(before) == len(pools)
        and all(is_same_but_for_its_count(before.get(name), x) for name, x in pools.items())
    )
