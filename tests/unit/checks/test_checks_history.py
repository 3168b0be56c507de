"""The increase of counters over a window."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.health import SAMPLES_MAX, History

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_the_first_reading_has_no_increase() -> None:
    assert History().rise("a", 1_000_000, at=NOW, within=HOUR) == 0


def test_a_counter_that_restarts_has_not_increased() -> None:
    history = History()
    history.rise("a", 500, at=NOW, within=HOUR)

    assert history.rise("a", 3, at=NOW + HOUR / 2, within=HOUR) == 0
    assert history.rise("a", 5, at=NOW + HOUR / 2, within=HOUR) == 2


@given(st.lists(st.tuples(st.integers(0, 1800), st.integers(0, 9)), max_size=SAMPLES_MAX))
def test_an_increase_is_the_sum_of_the_steps_within_the_window(
    steps: list[tuple[int, int]],
) -> None:
    history, at, value = History(), NOW, 0
    history.rise("a", value, at=at, within=HOUR)
    taken: list[tuple[datetime, int]] = []
    for pause_s, step in steps:
        at += timedelta(seconds=pause_s)
        value += step
        taken.append((at, step))

        found = history.rise("a", value, at=at, within=HOUR)

        assert found == sum(s for then, s in taken if then > at - HOUR)
