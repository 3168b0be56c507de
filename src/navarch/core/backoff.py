"""Exponential back-off."""

DOUBLINGS_MAX = 60
"""Beyond this, doubling would overflow a float in the end; every limit is reached earlier."""


def backoff_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """Return the seconds to wait after that many failures in a row.

    The delay starts at `first_s` and doubles up to `longest_s`. It has no jitter: callers that
    may retry at the same time add it.
    """
    doublings = min(max(failures, 1) - 1, DOUBLINGS_MAX)
    return min(first_s * 2.0**doublings, longest_s)
