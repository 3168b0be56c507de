"""The wheel and the source archive of this working tree, and empty environments to try them in."""

import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).parents[2]
CONSTRAINTS = PROJECT / "constraints.txt"


class NoPackagesError(RuntimeError):
    """The packages that an install needs cannot be downloaded."""


def builder_missing() -> str | None:
    """Return why nothing can be built here; None if it can."""
    return None if find_spec("hatchling") else "hatchling is not installed"


def build(folder: Path, target: str, project: Path = PROJECT) -> Path:
    """Build the `wheel` or the `sdist` of `project` into `folder`; return the file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (built,) = folder.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def build_release(folder: Path, *, agent_wheels: bool = False) -> Path:
    """Build the files of a release into `folder`, and return it.

    With `agent_wheels`, downloads the agent's compiled code, or raises NoPackagesError.
    """
    command = [str(PROJECT / "scripts/build-release"), str(folder)]
    ran = subprocess.run(
        command if agent_wheels else [*command, "--without-agent-wheels"],
        capture_output=True,
        text=True,
        check=False,
    )
    if agent_wheels and "navarch: https://" in ran.stderr:
        raise NoPackagesError(ran.stderr.strip()[-500:])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def clean_environment(folder: Path, wheel: Path, *, extras: str = "") -> Path:
    """Make a virtual environment with nothing but `wheel`; return its folder of programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    wanted = f"{wheel}[{extras}]" if extras else str(wheel)
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "-q"]
    _pip([*pip, "-c", str(CONSTRAINTS), wanted])
    return folder / "bin"


def download_locked(role: str, folder: Path) -> None:
    """Download the packages that a release lists for `role`, whose hashes must fit."""
    listed = PROJECT / f"deploy/packages/{role}.txt"
    pip = [sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), "--no-deps"]
    _pip([*pip, "--only-binary=:all:", "--require-hashes", "-r", str(listed)])


def _pip(command: Sequence[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if ran.returncode:
        raise NoPackagesError(ran.stderr.strip()[-500:])
