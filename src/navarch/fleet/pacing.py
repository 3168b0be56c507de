"""How long to wait before asking again."""

from datetime import timedelta

from navarch.core.errors import CredentialError, ProviderError, QuotaError, RejectedError

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)

HUMAN_PAUSE = timedelta(minutes=15)
"""Between attempts that only a person can make succeed: a quota, a key, a typo. Long enough
not to pester the provider, short enough that the fix is noticed."""


def retry_pause(error: ProviderError, *, attempts: int, offerings: int) -> timedelta:
    """Return the pause after the refusal that made the count of refusals `attempts`.

    The next offering is tried at once; only when all of them have refused does the wait
    begin, and it doubles with every round.
    """
    if attempts % offerings:
        return timedelta(0)
    if isinstance(error, QuotaError | CredentialError | RejectedError):
        return HUMAN_PAUSE
    return pause(attempts // offerings)


def pause(failures: int) -> timedelta:
    """Return the pause after that many failures in a row."""
    doublings = min(max(failures, 1) - 1, 16)
    return min(FIRST_PAUSE * (1 << doublings), LONGEST_PAUSE)
