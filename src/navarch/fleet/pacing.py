"""Pauses between attempts to buy a machine."""

from datetime import timedelta

from navarch.core.backoff import backoff_s

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)

HUMAN_PAUSE = timedelta(minutes=15)
"""The pause between attempts that fail until an operator acts: a quota, a key, a typo. Long
enough to spare the provider, short enough to find the correction soon."""


def pause(failures: int) -> timedelta:
    """Return the pause after that many failures in a row."""
    first_s, longest_s = FIRST_PAUSE.total_seconds(), LONGEST_PAUSE.total_seconds()
    return timedelta(seconds=backoff_s(failures, first_s=first_s, longest_s=longest_s))
