"""The reference of scenario files: tables of all keys for the documentation.

`python -m navarch.sim.scenario.reference docs/reference/scenarios.md` updates the
tables. A test fails while they are out of date.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from navarch.config.block import Named, Nested
from navarch.config.kinds import ListOf
from navarch.config.pool import PoolConfig
from navarch.config.reference import render_reference
from navarch.config.schema import keys_of
from navarch.sim.scenario.scenario import Scenario


def _blocks(cls: type, path: str = "") -> Iterator[tuple[str, type]]:
    """Yield the blocks within a block, each with the path of its key."""
    for name, declared in keys_of(cls).items():
        kind = declared.kind
        while isinstance(kind, ListOf | Named):
            kind = kind.each
        # Pools have their tables in the reference of the configuration.
        if isinstance(kind, Nested) and kind.cls is not PoolConfig:
            yield path + name, kind.cls
            yield from _blocks(kind.cls, f"{path}{name}.")


SECTIONS: Mapping[str, type] = {"top": Scenario, **dict(_blocks(Scenario))}
"""Every block of the file, by the name of its table in the documentation."""


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(render_reference(path.read_text("utf-8"), SECTIONS), "utf-8")
