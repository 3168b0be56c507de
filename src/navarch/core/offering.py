"""Offerings: kinds of machine that can be bought, with their places."""

from decimal import Decimal

import msgspec

from navarch.core.ids import ProviderName


class Offering(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of machine at one place, for one price."""

    provider: ProviderName
    instance_type: str
    region: str = ""
    zone: str = ""
    spot: bool = False
    gpus: int = 8
    gpu_type: str = ""
    price_per_hour: Decimal = Decimal(0)
    reservation: str = ""
    """The capacity reservation it uses. Reserved machines are paid for anyway and bought first."""
    reserved_nodes: int | None = None
    """The number of machines in the reservation; None: only the provider has that number."""

    @property
    def capacity_type(self) -> str:
        """The way it is paid for: reserved, spot or on demand."""
        if self.reservation:
            return "reserved"
        return "spot" if self.spot else "on demand"

    def __str__(self) -> str:
        place = self.zone or self.region
        return f"{self.instance_type} at {self.provider}" + (f" in {place}" if place else "")
