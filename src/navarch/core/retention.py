"""How long history is kept."""

from datetime import datetime, timedelta

import msgspec

from navarch.core.launch import Launch

LEAST = timedelta(days=32)
"""Events and launches are kept at least this long: budgets read those of a month, policies that
count occurrences those of thirty days."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long each kind of history is kept. State is kept as long as it exists."""

    events: timedelta = timedelta(days=90)
    """How far back `why` and a watch can reach."""
    launches: timedelta = timedelta(days=730)
    """How far back costs can reach."""
    evidence: timedelta = timedelta(days=90)
    logs: timedelta = timedelta(days=90)
    """How long bring-up logs are kept."""
    files_mb: int = 4096
    """The most megabytes of evidence, and of bring-up logs."""


def is_history(launch: Launch, before: datetime) -> bool:
    """Return whether `launch` and its machine were over before that time.

    A machine that still costs money is kept, however long it has been running.
    """
    if launch.open or (launch.launched_at is not None and launch.ended_at is None):
        return False
    return max(launch.asked_at, launch.ended_at or launch.asked_at) < before
