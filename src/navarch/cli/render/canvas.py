"""The rendering context: width, colours and the current time."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The width, the use of colours and the current time."""

    now: datetime
    width: int | None = None
    """None for unlimited: nothing is cut."""
    color: bool = False
