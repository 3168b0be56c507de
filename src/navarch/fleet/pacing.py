"""How long to wait before asking again."""

from datetime import timedelta

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)

HUMAN_PAUSE = timedelta(minutes=15)
"""Between attempts that only a person can make succeed: a quota, a key, a typo. Long enough
not to pester the provider, short enough that the fix is noticed."""


def pause(failures: int) -> timedelta:
    """Return the pause after that many failures in a row."""
    doublings = min(max(failures, 1) - 1, 16)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)
