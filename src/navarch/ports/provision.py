"""Where to buy the next machine."""

from dataclasses import dataclass
from typing import Protocol

from navarch.core.ids import PoolName
from navarch.core.offering import Offering


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionOption:
    """One of the places where a pool's next machine could be bought."""

    pool: PoolName
    offering: Offering
    position: int
    """Its place in the pool's own list, from zero."""
    options: int
    """How many there are."""


class ProvisionScheduler(Protocol):
    """Scores options; the highest is tried first, ties in the pool's own order. Pure.

    ```python
    class Cheapest:
        def score(self, option: ProvisionOption) -> float:
            return -float(option.offering.price_per_hour)
    ```
    """

    def score(self, option: ProvisionOption) -> float:
        """Return how good `option` is; higher is better."""
        ...


class FirstAvailable:
    """No preference beyond the pool's own list."""

    def score(self, option: ProvisionOption) -> float:
        """Return the same for every option."""
        del option
        return 0.0
