"""Machines spread over providers, by weight."""

from collections.abc import Mapping

from navarch.ports.provision import ProvisionOption


class RoundRobin:
    """Keeps each provider's share of a pool near its weight: 3 to 1 makes 6 and 2 of eight.

    It counts machines, not turns. So it has nothing to remember, a refusal costs nobody
    their turn, and a share that was lost is made good. A provider without a weight has one.
    """

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self._weights = dict(weights or {})
        for provider, weight in self._weights.items():
            if weight < 1:
                raise ValueError(f"the weight of {provider} must be 1 or more, not {weight}")

    def score(self, option: ProvisionOption) -> float:
        """Return how full the provider's share would be with one more, turned round."""
        weight = self._weights.get(option.offering.provider, 1)
        return -(option.held + 1) / weight
