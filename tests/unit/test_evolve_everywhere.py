"""Whatever is copied by `evolve` is a record that is `drafted`, on lines too that no test runs."""

import ast
import importlib
import re
import shutil
from pathlib import Path

import msgspec
import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


@pytest.mark.long  # The whole of the source is typed for it.
def test_nothing_is_copied_by_evolve_that_is_not_drafted(tmp_path: Path) -> None:
    """It takes structs only, which the type checker cannot see: it holds them to be dataclasses."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src")
    asked = sum(map(ask_for_type, (tmp_path / "src").rglob("*.py")))
    options = ["--config-file", str(tmp_path / "pyproject.toml"), "--cache-dir", "/dev/null"]

    told, _, _ = api.run([*options, str(tmp_path / "src" / "navarch")])

    kinds = re.findall(r'Revealed type is "([\w.]+)"', told)
    assert len(kinds) == asked > 0
    assert [kind for kind in sorted(set(kinds)) if not is_drafted(kind)] == []


def ask_for_type(path: Path) -> int:
    """Have the type checker say of what each copy in a file is made; return how many there are."""
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


def is_drafted(kind: str) -> bool:
    module, _, name = kind.rpartition(".")
    return issubclass(getattr(importlib.import_module(module), name), msgspec.Struct)
