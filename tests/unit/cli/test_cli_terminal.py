"""What changes where a person looks at a terminal."""

from cli_world import a_desk, a_place

from navarch.cli.environment import Terminal

UP = "up --gpus 16 --type h100 --name demo --wait"
WIDE = Terminal(width=100, live=True)


def test_a_terminal_gets_colours_unless_they_are_refused() -> None:
    with a_place(terminal=WIDE) as place:
        place.type(UP)
        assert place.world.control is not None
        refused = a_desk(
            place.world.control.fleet,
            runner=place.runner,
            environ={"NO_COLOR": "1"},
            terminal=WIDE,
        )
        assert "\x1b[32mActive\x1b[0m" in place.desk.type("list", color=True).stdout
        assert "\x1b" not in place.desk.type("list --no-color", color=True).stdout
        assert "\x1b" not in refused.type("list", color=True).stdout


def test_no_colours_go_where_nobody_looks() -> None:
    with a_place() as place:
        place.type(UP)
        assert "\x1b" not in place.desk.type("list", color=True).stdout


def test_progress_is_drawn_in_place_and_the_answer_stays_clean() -> None:
    with a_place(terminal=WIDE) as place:
        up = place.type(UP)
        down = place.type("down demo")

    assert up.exit_code == 0, up.output
    assert up.stdout.startswith("Pool demo is up: 2 nodes")
    assert "demo: 2 of 2 nodes ready" in up.stderr
    assert "demo: 0 machines left" in down.stderr
    assert down.stdout == "Pool demo is gone\n"


def test_progress_of_a_program_is_lines() -> None:
    with a_place(terminal=WIDE) as place:
        up = place.type(f"{UP} -o json")

    assert up.stdout.startswith("{")
    assert "demo-0 is requested\n" in up.stderr
