"""One parser reads durations on the command line, in configuration and in plugin arguments."""

from dataclasses import dataclass, field
from datetime import timedelta

import click
import pytest

from navarch.cli.options import duration, when
from navarch.config import ConfigError, parse_config
from navarch.core.duration import parse_duration, render_duration
from navarch.core.errors import InvalidError
from navarch.scheduler.arguments import PluginArguments, argument, parse_arguments

POOL = "providers: {c: {type: fake}}\npools: {p: {provider: c, instance_type: x, max_nodes: 1}}\n"

WRITTEN = [
    ("90s", timedelta(seconds=90)),
    ("1h30m", timedelta(hours=1, minutes=30)),
    ("250ms", timedelta(milliseconds=250)),
    ("1d", timedelta(days=1)),
    ("2w", timedelta(weeks=2)),
    ("1d12h", timedelta(days=1, hours=12)),
]


@dataclass
class Pausing:
    pause: timedelta = field(default=timedelta(seconds=5), metadata=argument("pause"))


def configured(text: str) -> timedelta:
    return parse_config(f"server: {{heartbeat_interval: {text}}}\n{POOL}").server.heartbeat_interval


def declared(value: object) -> object:
    return parse_arguments("mine", Pausing, {"pause": value})["pause"]


def requested(value: object) -> timedelta:
    return PluginArguments("mine", {"pause": value}).get_duration("pause", timedelta(0))


@pytest.mark.parametrize(("text", "expected"), WRITTEN)
def test_the_same_text_is_the_same_duration_everywhere(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected
    assert duration(text) == expected
    assert when(text) == expected
    assert configured(text) == expected
    assert declared(text) == expected
    assert requested(text) == expected


def test_only_the_command_line_takes_a_number_without_a_unit() -> None:
    assert parse_duration("90") is None
    assert duration("90") == timedelta(seconds=90)
    with pytest.raises(ConfigError, match="for example heartbeat_interval: 90s"):
        configured("90")
    for value in ("90", 90):
        with pytest.raises(InvalidError, match="is not a duration such as 90s, 1h30m or 2w"):
            declared(value)
        with pytest.raises(InvalidError, match="is not a duration such as 90s, 1h30m or 2w"):
            requested(value)


def test_a_negative_duration_is_refused_everywhere() -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        duration("-5s")
    with pytest.raises(ConfigError, match="must be a duration above zero"):
        configured("-5s")
    with pytest.raises(InvalidError, match="is not a duration"):
        declared("-5s")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("90s", 90),
        ("250ms", 0.25),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1m1m", 120),
        ("0", 0),
        ("+5s", 5),
        ("-5s", -5),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("2562047h", 2562047 * 3600),
        ("1d", 86_400),
        ("0.5w", 302_400),
    ],
)
def test_a_duration_is_read_as_in_go_with_days_and_weeks(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "s", "1y", "1 h", "5S", "1h-5m", "٣s", "1e3s", "-", ".s"),
        *("2562048h", "106752d", "15251w", "9" * 60 + "h"),
    ],
)
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize("text", ["1h30m", "90ms", "2h0m1s", "1us", "0s", "-3m", "2w"])
def test_a_rendered_duration_reads_back(text: str) -> None:
    duration = parse_duration(text)
    assert duration is not None
    assert parse_duration(render_duration(duration)) == duration
