"""One row of the catalogue."""

from dataclasses import dataclass
from enum import StrEnum

from navarch.core.health import Health
from navarch.health.xid.action import Action


class Kind(StrEnum):
    """Whose number it is: a GPU's or an NVSwitch's."""

    XID = "xid"
    SXID = "sxid"

    @property
    def label(self) -> str:
        """The kind as NVIDIA writes it."""
        return "XID" if self is Kind.XID else "SXid"


class Origin(StrEnum):
    """Whose fault an error is, before anything else is known."""

    APP = "app"
    DRIVER = "driver"
    FIRMWARE = "firmware"
    HARDWARE = "hardware"
    FABRIC = "fabric"
    MIXED = "mixed"
    INFO = "info"
    UNUSED = "unused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of one number, before the text of a line is read."""

    kind: Kind
    code: int
    mnemonic: str
    meaning: str
    origin: Origin
    severity: str
    action: Action
    fatal: bool
    """Whether the GPU must not be used any more until the action has been taken."""
    since: int | None = None
    """The first driver branch that prints it, where that is known: 565, 570 ..."""
    until: int | None = None
    advice: str = ""

    def known_to(self, branch: int | None) -> bool:
        """Return whether drivers of `branch` use the number with this meaning."""
        if branch is None:
            return True
        return (self.since or 0) <= branch <= (self.until or branch)


def health_of(origin: Origin, severity: str, *, fatal: bool) -> Health:
    """Return what an error says about the hardware it happened on."""
    if fatal:
        return Health.UNHEALTHY
    if severity == "info" or origin in (Origin.APP, Origin.INFO):
        return Health.HEALTHY
    return Health.DEGRADED
