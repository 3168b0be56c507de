"""Sentences fit the terminal: they are broken between words, never by the terminal within one."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from cli_fleet import make_cli, running_fleet

from navarch.cli.environment import Terminal
from navarch.cli.printing import echo, fold

SENTENCE = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short", "short"),
        (SENTENCE, "one two three four five six\n  seven eight nine ten"),
        (f"  {SENTENCE}", "  one two three four five six\n  seven eight nine ten"),
        (f"ok  {SENTENCE}", "ok  one two three four five\n    six seven eight nine ten"),
        ("see https://example.com/with/a/long/path", "see\n  https://example.com/with/a/long/path"),
        ("https://example.com/with/a/long/path x", "https://example.com/with/a/long/path\n  x"),
        (f" 12 | {SENTENCE}", f" 12 | {SENTENCE}"),
        (f"{'name':<20}{SENTENCE}", f"{'name':<20}{SENTENCE}"),
        (
            f"\x1b[31mone\x1b[0m {SENTENCE[4:]}",
            "\x1b[31mone\x1b[0m two three four five six\n  seven eight nine ten",
        ),
        ("十二三四 五六七八 九十百千 万", "十二三四 五六七八 九十百千 万"),
        ("", ""),
    ],
)
def test_a_line_that_does_not_fit_is_broken_between_words(text: str, shown: str) -> None:
    assert fold(text, 30) == shown


def test_the_answer_of_a_command_fits_the_terminal_and_wide_output_does_not_care() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name a-pool-with-a-rather-long-name")
        control = fleet.world.control
        assert control is not None
        cli = make_cli(control.fleet, runner=fleet.runner, terminal=Terminal(width=80))
        line = "up --gpus 8 --type h100 --name a-pool-with-a-rather-long-name"
        lines = cli.run(line).stdout.splitlines()
        wide = cli.run(f"{line} -o wide").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert max(map(len, wide)) > 80
    assert " ".join(" ".join(lines).split()) == " ".join(" ".join(wide).split())


def test_standard_output_is_not_broken_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    echo(SENTENCE * 9)
    echo(SENTENCE * 9, err=True)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (f"{SENTENCE * 9}\n", f"{SENTENCE * 9}\n")


def test_an_error_fits_the_terminal() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "navarch.cli", "-s", "http://127.0.0.1:1", "status"]
    ran = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    assert ran.wait(timeout=60) == 5
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(ours)

    assert lines[0].startswith("\x1b[31mError:\x1b[0m http://127.0.0.1:1 cannot be reached")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80 + len("\x1b[31m\x1b[0m")
