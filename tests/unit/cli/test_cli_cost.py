"""`navarch cost`."""

import json

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
        assert place.type("cost --since yesterday").exit_code == 2
