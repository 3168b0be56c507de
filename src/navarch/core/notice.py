"""Notices: announcements of a provider about one of its machines."""

from dataclasses import dataclass
from enum import StrEnum


class NoticeKind(StrEnum):
    """The announced event. The value is the name of the check that records it."""

    RECLAIM = "spot_notice"
    """The provider takes the machine back within minutes, in any case."""
    MAINTENANCE = "maintenance"
    """The machine will be interrupted or may be taken back: there is time to replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One announcement that is in force."""

    kind: NoticeKind
    reason: str
    """In the provider's terms, with the date where there is one."""
