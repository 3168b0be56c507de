"""Which Python `make` sets up with."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYSTEMS = "/usr/bin/python3"


def chosen(folder: Path, *, can_serve: bool, is_optimised: bool) -> tuple[str, str]:
    """Return which Python is chosen where `python3` is one like that, and what is said of it."""
    python = folder / "python3"
    python.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"*ensurepip*) exit {int(not can_serve)};;\n"
        f"*CONFIG_ARGS*) exit {int(not is_optimised)};;\n"
        "esac\n"
    )
    python.chmod(0o755)
    ran = subprocess.run(
        [ROOT / "scripts" / "choose-python"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip(), ran.stderr


def systems_can_serve() -> bool:
    """Return whether this machine's own Python is there and can make environments."""
    script = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([SYSTEMS, "-c", script], check=False).returncode == 0
    except OSError:
        return False


def test_the_python_that_is_called_python3_is_taken(tmp_path: Path) -> None:
    assert chosen(tmp_path, can_serve=True, is_optimised=True) == ("python3", "")


def test_one_that_lacks_something_is_taken_so_that_its_set_up_can_say_what(tmp_path: Path) -> None:
    assert chosen(tmp_path, can_serve=False, is_optimised=False) == ("python3", "")


def test_one_that_was_compiled_without_optimisation_makes_way_for_the_systems(
    tmp_path: Path,
) -> None:
    if not systems_can_serve():
        pytest.skip(f"{SYSTEMS} is too old here, or cannot make environments")
    python, said = chosen(tmp_path, can_serve=True, is_optimised=False)

    assert python == SYSTEMS
    assert "without optimisation" in said
    assert "make PYTHON=python3" in said
