"""The port to management controllers, which report the power of a machine without its help."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from navarch.core.errors import NavarchError


class BmcError(NavarchError):
    """The controller does not respond, refuses the login, or its response cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bmc:
    """The management controller of one machine, and the login for it."""

    address: str
    user: str = ""
    password: str = field(default="", repr=False)
    system: str = ""
    """The machine, as the controller names it, for a controller of several machines."""
    serial: str = ""
    """The serial number or UUID of the machine; empty accepts any."""


class Power(StrEnum):
    """Whether a machine has power."""

    ON = "on"
    OFF = "off"
    CHANGING = "changing"


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcReading:
    """What a controller reports about its machine."""

    power: Power
    health: str = ""
    """In the words of the controller, such as `Critical`; empty if it reports none."""


class BmcReader(Protocol):
    """Reads management controllers."""

    async def read(self, bmc: Bmc) -> BmcReading:
        """Return what a controller reports now, or raise BmcError."""
