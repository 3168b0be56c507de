"""Loading: a file to a scenario, or every problem in it."""

import os
from collections.abc import Mapping
from pathlib import Path

from navarch.config.context import FileText, ReadFile
from navarch.config.limits import TEXT_MAX
from navarch.config.reading import read_bytes, read_context, read_document, read_text
from navarch.sim.scenario.scenario import Scenario


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Return the scenario in a file, or raise ConfigError with every problem."""
    source = os.fspath(path)
    return parse_scenario(
        read_text(source, noun="scenario"),
        source=source,
        folder=Path(source).absolute().parent,
        read_file=read_file,
    )


def parse_scenario(
    text: str,
    *,
    source: str = "scenario.yaml",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    read_file: ReadFile | None = None,
) -> Scenario:
    """Return the scenario in a text, or raise ConfigError with every problem."""
    context = read_context(
        text, source=source, folder=folder, environment=environment, read_file=read_file
    )
    return read_document(Scenario, context, noun="scenario")


def read_file(path: Path) -> FileText:
    """Return the text of a file that a scenario names."""
    held = read_bytes(path, most=4 * TEXT_MAX)
    if len(held) > 4 * TEXT_MAX:
        raise ValueError("it is too long")
    return FileText(text=held.decode())
