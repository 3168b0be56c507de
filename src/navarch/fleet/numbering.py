"""Pools of which only the number of the next node has changed, as it does with every request."""

from dataclasses import fields
from operator import attrgetter

from navarch.core.pool import Pool

_asked_for = attrgetter(*(each.name for each in fields(Pool) if each.name != "next_index"))


def is_same_but_for_its_count(before: Pool | None, pool: Pool) -> bool:
    """Return whether `pool` was there before and has at most counted on since.

    Nothing is decided by that count: it only makes the next name.
    """
    return before is not None and bool(_asked_for(before) == _asked_for(pool))
