"""A library that stands in for NVIDIA's where there is no driver, with faults to ask for."""

import shutil
import subprocess
from enum import StrEnum
from pathlib import Path


class Mood(StrEnum):
    """How the stand-in behaves from now on, in every process that uses it."""

    WELL = " "
    HANG = "h"
    ERRORS = "e"
    FLOOD = "f"
    LOST = "l"


def build_stand_in(folder: Path) -> Path | None:
    """Return the library, compiled into `folder`; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("nvml_stand_in.c")
    built = folder / "libnvidia-ml.so.1"
    command = [compiler, "-O1", "-shared", "-fPIC", "-w", "-o", str(built), str(source)]
    subprocess.run(command, check=True)
    return built


def set_mood(file: Path, mood: Mood) -> None:
    """Change how the stand-in behaves. The file stays the same one: it is mapped into memory."""
    with file.open("r+b" if file.exists() else "w+b") as handle:
        handle.write(mood.encode())
