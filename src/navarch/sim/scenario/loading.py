"""Loading: a file to a scenario, or every problem in it."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from navarch.config.block import Named, Nested
from navarch.config.context import FileText, ReadFile
from navarch.config.disruption import BudgetConfig, GovernorConfig
from navarch.config.document import TEXT_MAX
from navarch.config.kinds import ListOf
from navarch.config.loading import read_bytes, read_context, read_document, read_text
from navarch.config.pool import PoolConfig
from navarch.config.reference import render_reference
from navarch.config.schema import keys_of
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


SHARED = (PoolConfig, BudgetConfig, GovernorConfig)
"""Blocks of the configuration, which have their tables in its reference."""


def _blocks(cls: type, path: str = "") -> Iterator[tuple[str, type]]:
    """Yield the blocks within a block, each with the path of its key."""
    for name, declared in keys_of(cls).items():
        kind = declared.kind
        while isinstance(kind, ListOf | Named):
            kind = kind.each
        if isinstance(kind, Nested) and kind.cls not in SHARED:
            yield path + name, kind.cls
            yield from _blocks(kind.cls, f"{path}{name}.")


SECTIONS: Mapping[str, type] = {"top": Scenario, **dict(_blocks(Scenario))}
"""Every block of the file, by the name of its table in the documentation."""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(render_reference(path.read_text("utf-8"), SECTIONS), "utf-8")
