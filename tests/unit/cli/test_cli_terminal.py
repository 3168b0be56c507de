"""Colours and progress on a terminal."""

from cli_fleet import make_cli, running_fleet

from navarch.cli.environment import Terminal

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
