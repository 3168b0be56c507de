"""Formatting and parsing of durations, prices, labels and text."""

from datetime import datetime, timedelta
from decimal import Decimal

import click
import pytest
from cli_views import NOW, ago

from navarch.cli.options import label, parse_duration_or_seconds
from navarch.cli.render.table import (
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
def test_an_age_is_in_the_largest_whole_unit(seconds: float, words: str) -> None:
    assert age(ago(seconds), NOW) == words


def test_the_age_of_none_is_never() -> None:
    assert age(None, NOW) == "Never"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("45", 45), ("0.5s", 0.5)],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration_or_seconds(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "-3s", "10x", "1h 3m", "inf", "1e9", "9" * 40 + "d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    assert parse_duration_or_seconds(text) is None


def test_a_label_requires_a_key() -> None:
    assert label("a=b=c") == ("a", "b=c")
    assert label("a=") == ("a", "")
    for text in ("a", "=b"):
        with pytest.raises(click.BadParameter):
            label(text)


def test_exact_durations_and_prices_are_complete() -> None:
    assert exact_duration(timedelta(seconds=5400)) == "1h30m"
    assert exact_duration(timedelta()) == "0s"
    assert price(Decimal("12345.678")) == "$12,345.68"


def test_a_time_of_another_day_includes_the_date() -> None:
    assert clock_time(NOW, NOW) == "12:00:00"
    yesterday: datetime = NOW - timedelta(days=1)
    assert clock_time(yesterday, NOW) == "2026-02-28 12:00:00"


def test_text_is_cut_and_wrapped_by_display_width() -> None:
    assert truncate("abcdef", 4) == "abc…"
    assert display_width(truncate("机器机器", 5)) <= 5
    assert wrap_text("aaa bbb ccc ddd eee fff ggg", 30, 10) == ["aaa bbb ccc ddd eee", "fff ggg"]
    assert wrap_text("too narrow to be wrapped", 30, 29) == ["too narrow to be wrapped"]
