"""A fake NVML library for machines without a driver, with faults on demand."""

import shutil
import subprocess
from enum import StrEnum
from pathlib import Path


class Mood(StrEnum):
    """The behaviour of the library, in every process that uses it."""

    WELL = " "
    HANG = "h"
    ERRORS = "e"
    FLOOD = "f"
    LOST = "l"


def build_stand_in(folder: Path) -> Path | None:
    """Compile the library into `folder` and return it; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("nvml_stand_in.c")
    built = folder / "libnvidia-ml.so.1"
    command = [compiler, "-O1", "-shared", "-fPIC", "-w", "-o", str(built), str(source)]
    subprocess.run(command, check=True)
    return built


def set_mood(file: Path, mood: Mood) -> None:
    """Change the library's behaviour. The file is written in place: processes have it mapped."""
    with file.open("r+b" if file.exists() else "w+b") as handle:
        handle.write(mood.encode())
