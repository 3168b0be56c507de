"""Strategies that choose where a pool's next machine is bought, each a `ProvisionScheduler`."""

from collections.abc import Mapping, Sequence

from navarch.ports.provision import ProvisionOption


class FirstAvailable:
    """No preference beyond the pool's own list: the first that can be had."""

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the place in the list."""
        return -float(option.position)


UNKNOWN = -1e9
"""A price nobody knows is not a low one: such offerings come last, but they come."""


class Cost:
    """Prefers a low price per GPU and hour."""

    def score(self, option: ProvisionOption) -> float:
        """Return the price of one GPU for an hour, turned round."""
        offering = option.offering
        if offering.price_per_hour <= 0:
            return UNKNOWN
        return -float(offering.price_per_hour) / max(offering.gpus, 1)


STEPS = 20
"""Odds are compared in steps of five per cent: a single answer more or less is no difference."""


class Availability:
    """Prefers what was sold lately to what was refused; what nobody tried is in between."""

    def score(self, option: ProvisionOption) -> float:
        """Return the odds of getting a machine."""
        return round(option.odds * STEPS) / STEPS


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


class RegionPreference:
    """Prefers regions as listed; those not listed come last, among themselves equal."""

    def __init__(self, regions: Sequence[str]) -> None:
        self._rank = {region: place for place, region in enumerate(dict.fromkeys(regions))}

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the region's place in the list."""
        return -float(self._rank.get(option.offering.region, len(self._rank)))


UNKNOWN_G_PER_KWH = 475.0
"""The world's average (IEA, 2019), for regions about which nothing is known."""


class CarbonAware:
    """Prefers regions whose electricity causes little carbon dioxide."""

    def __init__(self, grams_per_kwh: Mapping[str, float]) -> None:
        self._grams_per_kwh = dict(grams_per_kwh)

    def score(self, option: ProvisionOption) -> float:
        """Return the grams of carbon dioxide per kilowatt-hour, turned round."""
        return -self._grams_per_kwh.get(option.offering.region, UNKNOWN_G_PER_KWH)
