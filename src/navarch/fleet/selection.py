"""Which offering to ask for next."""

from navarch.core.offering import Offering
from navarch.core.pool import Pool


def choose_offering(pool: Pool, attempts: int) -> Offering:
    """Return where to ask after `attempts` refusals: best first, then round and round.

    No refusal rules an offering out for good: sold out today is not sold out tomorrow.
    """
    return pool.offerings[attempts % len(pool.offerings)]
