"""`navarch cost`."""

import json
from datetime import datetime, timedelta

import pytest
from cli_world import a_place


@pytest.mark.parametrize("by", ["pool", "team", "provider"])
def test_costs_are_shown_by_pool_team_or_provider(by: str) -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo --wait")
        shown = place.type(f"cost --by {by}")
        report = json.loads(place.type(f"cost --by {by} -o json").stdout)

    assert shown.exit_code == 0, shown.output
    assert by.capitalize() in shown.stdout
    assert report["by"] == by
    assert len(report["lines"]) == 1


def test_costs_by_something_else_are_bad_usage() -> None:
    with a_place() as place:
        assert place.type("cost --by moon").exit_code == 2


def test_costs_are_asked_for_since_a_day_a_moment_or_so_long_ago() -> None:
    with a_place() as place:
        day = json.loads(place.type("cost --since 2026-01-01 -o json").stdout)
        moment = json.loads(place.type("cost --since 2026-01-01T00:00:00Z -o json").stdout)
        week = json.loads(place.type("cost --since 7d -o json").stdout)

    assert day["since"] == moment["since"] == "2026-01-01T00:00:00Z"
    began, ended = (datetime.fromisoformat(week[key]) for key in ("since", "until"))
    assert abs(ended - began - timedelta(days=7)) < timedelta(minutes=1)


@pytest.mark.parametrize("when", ["yesterday", "2026-13-01", "2026-01-01T12:00:00"])
def test_a_moment_that_is_none_is_refused_with_what_would_be_one(when: str) -> None:
    with a_place() as place:
        refused = place.type(f"cost --since {when}")

    assert refused.exit_code == 2
    assert "a duration such as 10m nor a day such as 2026-03-01" in refused.output
