"""The words people see and type."""

from datetime import datetime, timedelta
from decimal import Decimal

import click
import pytest
from cli_views import NOW, ago

from navarch.cli.options import label, parse_duration
from navarch.cli.render.formatting import (
    age,
    clock_time,
    display_width,
    exact_duration,
    price,
    truncate,
    wrap_text,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s ago"),
        (59.9, "59s ago"),
        (60, "1m ago"),
        (3599, "59m ago"),
        (3600, "1h ago"),
        (86399, "23h ago"),
        (86400, "1d ago"),
        (-5, "0s ago"),
    ],
)
def test_an_age_is_in_its_largest_whole_unit(seconds: float, words: str) -> None:
    assert age(ago(seconds), NOW) == words


def test_what_never_was_has_no_age() -> None:
    assert age(None, NOW) == "Never"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("45", 45), ("0.5s", 0.5)],
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "-3s", "10x", "1h 3m", "inf", "1e9", "9" * 40 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert parse_duration(text) is None


def test_a_label_has_a_key() -> None:
    assert label("a=b=c") == ("a", "b=c")
    assert label("a=") == ("a", "")
    for text in ("a", "=b"):
        with pytest.raises(click.BadParameter):
            label(text)


def test_durations_and_prices_lose_nothing() -> None:
    assert exact_duration(timedelta(seconds=5400)) == "1h30m"
    assert exact_duration(timedelta()) == "0s"
    assert price(Decimal("12345.678")) == "$12,345.68"


def test_a_time_of_another_day_carries_its_date() -> None:
    assert clock_time(NOW, NOW) == "12:00:00"
    yesterday: datetime = NOW - timedelta(days=1)
    assert clock_time(yesterday, NOW) == "2026-02-28 12:00:00"


def test_texts_are_cut_and_wrapped_by_what_is_seen() -> None:
    assert truncate("abcdef", 4) == "abc…"
    assert display_width(truncate("机器机器", 5)) <= 5
    assert wrap_text("aaa bbb ccc ddd eee fff ggg", 30, 10) == ["aaa bbb ccc ddd eee", "fff ggg"]
    assert wrap_text("too narrow to be wrapped", 30, 29) == ["too narrow to be wrapped"]
