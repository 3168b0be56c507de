"""What a pool had to do at the same hour on earlier days."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta

from navarch.ports.autoscaler import Load

DAY = timedelta(days=1)
WEEK_DAYS = 7
QUARTER = timedelta(minutes=15)


def expected_peak(history: Sequence[Load], since: datetime, until: datetime) -> float | None:
    """Return the most busy nodes to expect in that time; None if no earlier day is known."""
    quarters = int((until - since) / QUARTER) + 1
    known = [expected_load(history, since + number * QUARTER) for number in range(quarters)]
    return max((load for load in known if load is not None), default=None)


def expected_load(history: Sequence[Load], at: datetime) -> float | None:
    """Return the busy nodes to expect `at`; None if no earlier day is known.

    The same day last week says most: weekends differ from weekdays. Until a week is known,
    the mean of the days that are.
    """
    known = [
        found
        for days in range(1, WEEK_DAYS + 1)
        if (found := _load_at(history, at - days * DAY)) is not None
    ]
    last_week = _load_at(history, at - WEEK_DAYS * DAY)
    if last_week is not None:
        return last_week
    return sum(known) / len(known) if known else None


def _load_at(history: Sequence[Load], at: datetime) -> float | None:
    """Return the load in the quarter of an hour that holds `at`."""
    begins = at - QUARTER
    place = bisect_left(history, begins, key=lambda load: load.at)
    while place < len(history) and history[place].at <= at:
        if history[place].at > begins:
            return history[place].busy_nodes
        place += 1
    return None
