"""The walk from an XID to the replacement names functions and the files that define them."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from doc_pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "from-xid-to-replacement.md"
STEP = r"^\| (?P<number>\d+) \| `(?P<file>[\w/.]+)` \| `(?P<name>[\w.]+)` \| "
STEPS = list(re.finditer(STEP, PAGE.read_text("utf-8"), re.MULTILINE))


@cache
def functions(file: str) -> frozenset[str]:
    """Return the functions of a module, those of classes with the name of the class."""
    tree = ast.parse((ROOT / "src" / "navarch" / file).read_text("utf-8"))
    return frozenset(_functions(tree.body, ""))


def _functions(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{node.name}.")


def test_steps_are_numbered_in_order() -> None:
    assert [int(step["number"]) for step in STEPS] == list(range(1, len(STEPS) + 1))
    assert len(STEPS) > 40


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_the_file_defines_the_function(step: re.Match[str]) -> None:
    assert step["name"] in functions(step["file"])
