"""Colours and progress on a terminal."""

import json

import pytest
from cli_fleet import make_cli, running_fleet
from click.testing import CliRunner

from navarch.cli.environment import Terminal
from navarch.cli.main import navarch

UP = "up --gpus 16 --type h100 --name demo --wait"
WIDE = Terminal(width=100, live=True)


def test_a_terminal_gets_colours_unless_disabled() -> None:
    with running_fleet(terminal=WIDE) as fleet:
        fleet.run(UP)
        assert fleet.world.control is not None
        refused = make_cli(
            fleet.world.control.fleet,
            runner=fleet.runner,
            environ={"NO_COLOR": "1"},
            terminal=WIDE,
        )
        assert "\x1b[32mActive\x1b[0m" in fleet.cli.run("list", color=True).stdout
        assert "\x1b" not in fleet.cli.run("list --no-color", color=True).stdout
        assert "\x1b" not in refused.run("list", color=True).stdout


def test_there_are_no_colours_without_a_terminal() -> None:
    with running_fleet() as fleet:
        fleet.run(UP)
        assert "\x1b" not in fleet.cli.run("list", color=True).stdout


def test_progress_is_redrawn_in_place_and_standard_output_holds_only_the_result() -> None:
    with running_fleet(terminal=WIDE) as fleet:
        up = fleet.run(UP)
        down = fleet.run("down demo")

    assert up.exit_code == 0, up.output
    assert up.stdout.startswith("Pool demo is up: 2 nodes")
    assert "demo: 2 of 2 nodes ready" in up.stderr
    assert "demo: 0 machines left" in down.stderr
    assert down.stdout == "Pool demo is gone\n"


def test_without_a_terminal_progress_is_printed_as_lines() -> None:
    with running_fleet(terminal=WIDE) as fleet:
        up = fleet.run(f"{UP} -o json")

    assert up.stdout.startswith("{")
    assert "demo-0 is requested\n" in up.stderr


def test_wide_output_has_the_columns_that_do_not_fit_the_terminal() -> None:
    with running_fleet(terminal=Terminal(width=60)) as fleet:
        fleet.run(UP)
        narrow, wide = (fleet.run(f"list{option}").stdout for option in ("", " -o wide"))

    assert "Provider" not in narrow.splitlines()[0]
    assert "Provider  Region" in wide.splitlines()[0]
    assert len(wide.splitlines()) == len(narrow.splitlines()) == 3


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("list", "demo-0\ndemo-1\n"),
        ("get demo-0", "demo-0\n"),
        ("pool list", "demo\n"),
        ("cordon demo-1", "demo-1\n"),
        ("list --status cordoned", ""),
    ],
)
def test_name_output_is_one_name_per_line(command: str, printed: str) -> None:
    with running_fleet() as fleet:
        fleet.run(UP)
        assert fleet.run(f"{command} -o name").stdout == printed


def test_name_output_of_what_has_no_names_is_refused() -> None:
    with running_fleet() as fleet:
        refused = fleet.run("status -o name")

    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "-o name is for nodes" in refused.stderr


def test_sched_plugins_are_listed_as_json() -> None:
    found = json.loads(CliRunner().invoke(navarch, ["sched", "plugins", "-o", "json"]).stdout)

    assert "ageing" in {plugin["name"] for plugin in found["plugins"]}
    assert all(point["name"] and point["called"] for point in found["extension_points"])
