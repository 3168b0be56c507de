"""Regions in an order of preference."""

from collections.abc import Sequence

from navarch.ports.provision import ProvisionOption


class RegionPreference:
    """Prefers regions as listed; those not listed come last, among themselves equal."""

    def __init__(self, regions: Sequence[str]) -> None:
        self._rank = {region: place for place, region in enumerate(dict.fromkeys(regions))}

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the region's place in the list."""
        return -float(self._rank.get(option.offering.region, len(self._rank)))
