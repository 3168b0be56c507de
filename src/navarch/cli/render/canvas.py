"""The space and the moment that a text is made for."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """How wide, in colour or not, and what time it is."""

    now: datetime
    width: int | None = None
    """None: as wide as it comes, nothing is cut."""
    color: bool = False
