"""Notices: what a provider says it is about to do to one of its machines."""

from dataclasses import dataclass
from enum import StrEnum


class NoticeKind(StrEnum):
    """What is coming. The word is the name of the check under which it is kept."""

    RECLAIM = "spot_notice"
    """The machine will be taken back within minutes, whatever anybody does."""
    MAINTENANCE = "maintenance"
    """The machine will be disturbed, or is likely to be taken back: there is time to replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One announcement, for as long as it stands."""

    kind: NoticeKind
    reason: str
    """In the provider's terms, with the date where there is one."""
