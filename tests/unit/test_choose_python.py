"""The Python that `make setup` uses."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYSTEMS = "/usr/bin/python3"


def chosen(folder: Path, *, usable: bool, is_optimised: bool) -> tuple[str, str]:
    """Return the Python that is chosen if `python3` has these properties, and the message."""
    python = folder / "python3"
    python.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"*ensurepip*) exit {int(not usable)};;\n"
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


def system_python_is_usable() -> bool:
    """Return whether the system's Python exists and can create environments."""
    script = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([SYSTEMS, "-c", script], check=False).returncode == 0
    except OSError:
        return False


def test_python3_is_used_by_default(tmp_path: Path) -> None:
    assert chosen(tmp_path, usable=True, is_optimised=True) == ("python3", "")


def test_an_unusable_python3_is_kept_so_that_setup_can_report_the_problem(tmp_path: Path) -> None:
    assert chosen(tmp_path, usable=False, is_optimised=False) == ("python3", "")


def test_the_system_python_replaces_one_compiled_without_optimisation(
    tmp_path: Path,
) -> None:
    if not system_python_is_usable():
        pytest.skip(f"{SYSTEMS} is too old here, or cannot make environments")
    python, message = chosen(tmp_path, usable=True, is_optimised=False)

    assert python == SYSTEMS
    assert "without optimisation" in message
    assert "make PYTHON=python3" in message
