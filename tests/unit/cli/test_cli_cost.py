"""`navarch cost`."""

import json
from datetime import datetime, timedelta

import pytest
from cli_fleet import running_fleet


@pytest.mark.parametrize("by", ["pool", "team", "provider"])
def test_costs_are_shown_by_pool_team_or_provider(by: str) -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        shown = fleet.run(f"cost --by {by}")
        report = json.loads(fleet.run(f"cost --by {by} -o json").stdout)

    assert shown.exit_code == 0, shown.output
    assert by.capitalize() in shown.stdout
    assert report["by"] == by
    assert len(report["lines"]) == 1


def test_cost_by_an_unknown_key_is_bad_usage() -> None:
    with running_fleet() as fleet:
        assert fleet.run("cost --by moon").exit_code == 2


def test_cost_since_accepts_a_day_a_time_or_an_age() -> None:
    with running_fleet() as fleet:
        day = json.loads(fleet.run("cost --since 2026-01-01 -o json").stdout)
        moment = json.loads(fleet.run("cost --since 2026-01-01T00:00:00Z -o json").stdout)
        week = json.loads(fleet.run("cost --since 7d -o json").stdout)

    assert day["since"] == moment["since"] == "2026-01-01T00:00:00Z"
    began, ended = (datetime.fromisoformat(week[key]) for key in ("since", "until"))
    assert abs(ended - began - timedelta(days=7)) < timedelta(minutes=1)


@pytest.mark.parametrize("when", ["yesterday", "2026-13-01", "2026-01-01T12:00:00"])
def test_an_invalid_since_is_refused_with_valid_examples(when: str) -> None:
    with running_fleet() as fleet:
        refused = fleet.run(f"cost --since {when}")

    assert refused.exit_code == 2
    assert "a duration such as 10m nor a day such as 2026-03-01" in refused.output
