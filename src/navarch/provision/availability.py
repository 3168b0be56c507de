"""Where machines were to be had lately."""

from navarch.ports.provision import ProvisionOption

STEPS = 20
"""Odds are compared in steps of five per cent: a single answer more or less is no difference."""


class Availability:
    """Prefers what was sold lately to what was refused; what nobody tried is in between."""

    def score(self, option: ProvisionOption) -> float:
        """Return the odds of getting a machine."""
        return round(option.odds * STEPS) / STEPS
