"""The glossary names what the code defines."""

import re
from functools import cache

import pytest
from doc_pages import ROOT

CODE = r"`(?P<name>\w+)` in `(?P<layer>\w+)/`"
ROW = re.compile(rf"\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| {CODE} \|")
LINES = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
ROWS = [match for line in LINES if (match := ROW.fullmatch(line))]


@cache
def source(layer: str) -> str:
    """Return the code of a layer, with the names of its modules."""
    paths = sorted((ROOT / "src" / "navarch" / layer).rglob("*.py"))
    return "\n".join(f"module {path.stem}\n{path.read_text('utf-8')}" for path in paths)


def test_every_row_names_its_place() -> None:
    lines = [line for line in LINES if line.startswith("| ") and not line.startswith("| term ")]
    assert [line for line in lines if not ROW.fullmatch(line)] == []
    assert len(ROWS) > 60


def test_every_term_has_one_meaning() -> None:
    terms = [row["term"] for row in ROWS]
    assert sorted(set(terms)) == sorted(terms)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["term"])
def test_the_layer_defines_the_name(row: re.Match[str]) -> None:
    name = row["name"]
    defined = rf"^(class|def|async def|module) {name}\b|^{name}\b.*="
    assert re.search(defined, source(row["layer"]), re.MULTILINE)
