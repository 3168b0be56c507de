"""The delay between retries."""

import pytest

from navarch.core.duration import backoff_s


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 5), (1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300)]
)
def test_the_delay_doubles_up_to_its_limit(failures: int, seconds: float) -> None:
    assert backoff_s(failures, first_s=5.0, longest_s=300.0) == seconds


def test_any_number_of_failures_has_a_delay() -> None:
    assert backoff_s(10**9, first_s=0.5, longest_s=30.0) == 30.0
