"""`evolve` copies structs only, on lines too that no test runs."""

import ast
import importlib
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # mypy runs over the whole source.
def test_evolve_is_only_called_with_structs(tmp_path: Path) -> None:
    """mypy accepts dataclasses there too, because it sees `dataclasses.replace`."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src")
    revealed = sum(map(reveal_types, (tmp_path / "src").rglob("*.py")))
    options = ["--config-file", str(tmp_path / "pyproject.toml"), "--cache-dir", "/dev/null"]

    output, _, _ = api.run([*options, str(tmp_path / "src" / "navarch")])

    kinds = re.findall(r'Revealed type is "([\w.]+)"', output)
    assert len(kinds) == revealed > 0
    assert [kind for kind in sorted(set(kinds)) if not is_struct(kind)] == []


def reveal_types(path: Path) -> int:
    """Wrap the argument of each `evolve` in `reveal_type`; return how many there are."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    records = [
        (starts[record.lineno - 1] + record.col_offset, starts[end - 1] + record.end_col_offset)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "evolve"
        and (record := call.args[0]).end_col_offset is not None
        and (end := record.end_lineno) is not None
    ]
    for start, end in sorted(records, reverse=True):
        text = b"".join([text[:start], b"reveal_type(", text[start:end], b")", text[end:]])
    path.write_bytes(text)
    return len(records)


def is_struct(kind: str) -> bool:
    module, _, name = kind.rpartition(".")
    return issubclass(getattr(importlib.import_module(module), name), msgspec.Struct)
