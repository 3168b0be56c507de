"""The cleanest electricity first."""

from collections.abc import Mapping

from navarch.ports.provision import ProvisionOption

UNKNOWN_G_PER_KWH = 475.0
"""The world's average (IEA, 2019), for regions about which nothing is known."""


class CarbonAware:
    """Prefers regions whose electricity causes little carbon dioxide."""

    def __init__(self, grams_per_kwh: Mapping[str, float]) -> None:
        self._grams_per_kwh = dict(grams_per_kwh)

    def score(self, option: ProvisionOption) -> float:
        """Return the grams of carbon dioxide per kilowatt-hour, turned round."""
        return -self._grams_per_kwh.get(option.offering.region, UNKNOWN_G_PER_KWH)
