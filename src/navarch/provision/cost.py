"""The cheapest GPU first."""

from navarch.ports.provision import ProvisionOption

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
