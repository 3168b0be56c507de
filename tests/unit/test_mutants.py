"""`scripts/mutants`: a mutant is killed by a failing test, and an entry must match its file."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutants"
CODE = "def allows(nodes: int) -> bool:\n    return 0 < nodes <= 3\n"
TEST = "from limits import allows\n\n\ndef test_limit() -> None:\n    assert not allows(4)\n"


def run(
    folder: Path, *mutants: tuple[str, str, str], options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Run the script on a tree with one module and one test; return the status and its output."""
    entries = [
        f'[[section.mutant]]\nname = "{name}"\nold = "{old}"\nnew = "{new}"\n'
        for name, old, new in mutants
    ]
    head = '[[section]]\nfile = "src/limits.py"\ntests = ["tests/test_limits.py"]\n'
    for name, text in {
        "src/limits.py": CODE,
        "tests/test_limits.py": TEST,
        "scripts/mutants.toml": head + "".join(entries),
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(folder), "--jobs", "1", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_mutant_that_a_test_notices_is_killed(tmp_path: Path) -> None:
    status, output = run(tmp_path, ("no limit", "nodes <= 3", "nodes"))
    assert "1 killed, 0 survived, 0 equivalent" in output
    assert status == 0
    assert (tmp_path / "src" / "limits.py").read_text() == CODE


def test_a_mutant_that_no_test_notices_fails_the_run(tmp_path: Path) -> None:
    status, output = run(tmp_path, ("no limit", "nodes <= 3", "nodes"), ("no floor", "0 <", "-9 <"))
    assert "1 killed, 1 survived, 0 equivalent" in output
    assert "survived: no floor" in output
    assert status == 1


def test_a_text_that_does_not_occur_exactly_once_fails_the_run(tmp_path: Path) -> None:
    mutants = (("gone", "nodes <= 5", "nodes"), ("twice", "nodes", "n"))
    status, output = run(tmp_path, *mutants, options=("--check",))
    assert "gone: the text occurs 0 times in src/limits.py" in output
    assert "twice: the text occurs 2 times in src/limits.py" in output
    assert status == 1
