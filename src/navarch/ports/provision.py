"""Where to buy the next machine."""

from typing import Protocol

import msgspec

from navarch.core.ids import PoolName
from navarch.core.offering import Offering


class ProvisionOption(msgspec.Struct, frozen=True, kw_only=True):
    """One of the places where a pool's next machine could be bought."""

    pool: PoolName
    offering: Offering
    position: int
    """Its place in the pool's own list, from zero."""
    options: int
    """How many there are."""
    held: int = 0
    """How many machines the pool has, or has asked for, at this offering's provider."""
    odds: float = 0.5
    """How likely it is to be had, by what was sold and refused there lately, from 0 to 1."""


class ProvisionScheduler(Protocol):
    """Scores options; the highest that can be had is asked for. Pure.

    Between equal scores the one nearest to the first choice wins: another zone of its
    region, then another region of its provider, then another provider. What it fails to score
    comes last, and the table behind the choice says why.

    ```python
    class Cheapest:
        def score(self, option: ProvisionOption) -> float:
            return -float(option.offering.price_per_hour)
    ```
    """

    def score(self, option: ProvisionOption) -> float:
        """Return how good `option` is; higher is better."""
        ...
