"""Strategies that choose where machines are bought."""

from collections.abc import Mapping, Sequence

from navarch.ports.provider import ProvisionOption


class FirstAvailable:
    """Prefers offerings in the order of the pool's list."""

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the position in the list."""
        return -float(option.position)


UNKNOWN = -1e9
"""The score of offerings with an unknown price, which come last."""


class Cost:
    """Prefers a low hourly price per GPU."""

    def score(self, option: ProvisionOption) -> float:
        """Return the negative hourly price of one GPU."""
        offering = option.offering
        if offering.price_per_hour <= 0:
            return UNKNOWN
        return -float(offering.price_per_hour) / max(offering.gpus, 1)


STEPS = 20
"""Odds are compared in steps of five percent, so that a single launch makes no difference."""


class Availability:
    """Prefers offerings that sold recently over untried ones, and those over refused ones."""

    def score(self, option: ProvisionOption) -> float:
        """Return the odds of getting a machine, rounded."""
        return round(option.odds * STEPS) / STEPS


class RoundRobin:
    """Keeps each provider's share of a pool near its weight: 3 to 1 makes 6 and 2 of eight.

    It counts running machines instead of keeping a cursor. So it needs no state, a refusal does
    not shift the shares, and lost machines are made up for. The default weight is 1.
    """

    def __init__(self, weights: Mapping[str, int] | None = None) -> None:
        self._weights = dict(weights or {})
        for provider, weight in self._weights.items():
            if weight < 1:
                raise ValueError(f"the weight of {provider} must be 1 or more, not {weight}")

    def score(self, option: ProvisionOption) -> float:
        """Return the negative load of the provider's share with one more machine."""
        weight = self._weights.get(option.offering.provider, 1)
        return -(option.held + 1) / weight


class RegionPreference:
    """Prefers regions in the order of a list; unlisted regions come last, with equal scores."""

    def __init__(self, regions: Sequence[str]) -> None:
        self._rank = {region: place for place, region in enumerate(dict.fromkeys(regions))}

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the region's position in the list."""
        return -float(self._rank.get(option.offering.region, len(self._rank)))


UNKNOWN_G_PER_KWH = 475.0
"""The world average (IEA, 2019), for regions without data."""


class CarbonAware:
    """Prefers regions with low-carbon electricity."""

    def __init__(self, grams_per_kwh: Mapping[str, float]) -> None:
        self._grams_per_kwh = dict(grams_per_kwh)

    def score(self, option: ProvisionOption) -> float:
        """Return the negative grams of carbon dioxide per kilowatt-hour."""
        return -self._grams_per_kwh.get(option.offering.region, UNKNOWN_G_PER_KWH)
