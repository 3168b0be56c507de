"""Which offering to ask for next."""

from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.ports.provision import ProvisionOption, ProvisionScheduler


def choose_offering(pool: Pool, attempts: int, scheduler: ProvisionScheduler) -> Offering:
    """Return where to ask after `attempts` refusals: best first, then round and round.

    No refusal rules an offering out for good: sold out today is not sold out tomorrow.
    """
    ranked = sorted(
        (
            ProvisionOption(
                pool=pool.name, offering=offering, position=place, options=len(pool.offerings)
            )
            for place, offering in enumerate(pool.offerings)
        ),
        key=lambda option: (-scheduler.score(option), option.position),
    )
    return ranked[attempts % len(ranked)].offering
