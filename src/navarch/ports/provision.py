"""The port that chooses where to buy the next machine."""

from typing import Protocol

import msgspec

from navarch.core.ids import PoolName
from navarch.core.launch import Offering


class ProvisionOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option for the next machine of a pool."""

    pool: PoolName
    offering: Offering
    position: int
    """Its position in the pool's own list, from zero."""
    options: int
    """The number of options."""
    held: int = 0
    """How many machines the pool has, or has requested, at this offering's provider."""
    odds: float = 0.5
    """The estimated chance that it is available, by recent launches and refusals, from 0 to 1."""


class ProvisionScheduler(Protocol):
    """Scores options; the available option with the highest score is requested. Pure.

    Of equal scores the option nearest to the first choice wins: another zone of its region, then
    another region of its provider, then another provider. An option for which `score` raises
    comes last, with the error in the table behind the choice.

    ```python
    class Cheapest:
        def score(self, option: ProvisionOption) -> float:
            return -float(option.offering.price_per_hour)
    ```
    """

    def score(self, option: ProvisionOption) -> float:
        """Return the score of `option`; higher is better."""
