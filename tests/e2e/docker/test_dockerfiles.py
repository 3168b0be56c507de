"""The Dockerfiles, judged by a linter."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCKERFILES = Path(__file__).parents[3] / "deploy/container"


@pytest.mark.parametrize("program", ["agent", "control-plane"])
def test_hadolint_accepts_the_dockerfiles_and_finds_errors(program: str, tmp_path: Path) -> None:
    file = DOCKERFILES / f"{program}.Dockerfile"
    hadolint = str(Path(sys.executable).parent / "hadolint")
    ran = subprocess.run([hadolint, str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    worse = tmp_path / "Dockerfile"
    worse.write_text(file.read_text() + "USER root\n")
    ran = subprocess.run([hadolint, str(worse)], capture_output=True, text=True, check=False)
    assert "DL3002" in ran.stdout
