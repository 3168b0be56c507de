"""Files, modules and names in the documentation exist in the tree."""

import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from doc_pages import ROOT, page_name, pages, prose

SOURCE = ROOT / "src" / "navarch"
FOLDERS = ("src", "tests", "bench", "scripts", "examples", "scenarios", "docs", "deploy", "proto")
SUFFIXES = (".py", ".yaml", ".md", ".json", ".proto", ".csv", ".toml", ".service", ".sh", ".c")
WORD = re.compile(r"\w+")

NOT_IN_THE_TREE = {
    "MyConfig": "a class of the reader",
    "commands.json": "a file of an agent's state directory",
    "evidence/": "a folder of the server's data directory",
    "readings/": "a folder of the server's data directory",
    "loads/": "a folder of the server's data directory",
    "findings.json": "a file of an agent's state directory",
    "hosts.yaml": "an inventory of the reader",
    "link_id": "a metric that agents of the Go system send",
    "mem_mhz": "a field of recordings that is read and not used",
    "navarch.autoscalers": "a group of entry points",
    "navarch.authenticators": "a group of entry points",
    "navarch.db": "the database of the server's data directory",
    "navarch.provision_schedulers": "a group of entry points",
    "navarch.yaml": "the configuration file of the reader",
    "navarch.v1": "the protobuf package",
    "navarch.v1.HeartbeatRequest": "a message of the protobuf package",
    "nodes.csv": "a table of the reader",
    "office-hours.yaml": "a scenario of the reader",
    "pods.csv": "a table of the reader",
    "power_watts": "a metric that agents of the Go system send",
    "results.json": "a file that a script writes",
    "sbom.cdx.json": "a file of a release",
}
"""Names that pages use and that the repository does not hold, with the reason."""


def spans(page: Path) -> Iterator[str]:
    yield from re.findall(r"`([^`\n]+)`", prose(page))


def paths(page: Path) -> Iterator[str]:
    """Yield what reads as a path of the repository: `control/planning.py`, `examples/config/`."""
    for span in spans(page):
        is_path = re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", span) and not span.startswith(".")
        if is_path and (span.endswith(SUFFIXES) or (span.endswith("/") and len(span) > 2)):
            yield span


def modules(page: Path) -> Iterator[str]:
    """Yield what reads as a dotted name: `navarch.ports.store.Store`, `core.budget.Budget`."""
    for span in spans(page):
        head, _, tail = span.removesuffix("()").partition(".")
        if head == "navarch" and span not in NOT_IN_THE_TREE and re.fullmatch(r"\w+(\.\w+)*", tail):
            yield span.removesuffix("()")
        elif (SOURCE / head / "__init__.py").exists() and re.fullmatch(r"\w+(\.\w+)+", tail):
            yield f"navarch.{span.removesuffix('()')}"


def identifiers(page: Path) -> Iterator[str]:
    """Yield names of classes and functions: `WorkQueue`, `plan_pool`, `Node.held`."""
    for span in spans(page):
        for part in re.sub(r"\(.*\)$", "", span).split("."):
            is_class = re.fullmatch(r"([A-Z][a-z0-9]+){2,}", part)
            if is_class or re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", part):
                yield part


@cache
def files() -> frozenset[str]:
    """Return every file and folder, by each of the ways to end its path: `a/b/c.py`, `b/c.py`."""
    found = {"/" + path.name for path in ROOT.iterdir()}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                found |= {"/" + "/".join(path.relative_to(ROOT).parts[i:]) for i in range(20)}
        found.add("/" + folder)
    return frozenset(found)


@cache
def words() -> frozenset[str]:
    """Return every word of the code."""
    found: set[str] = set()
    for folder in ("src", "tests", "bench", "proto", "examples", "scenarios", "deploy"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".proto", ".yaml", ".yml", ".csv", ".txt", ".c"}:
                found.update(WORD.findall(path.read_text("utf-8")))
    return frozenset(found)


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_every_path_exists(page: Path) -> None:
    assert missing(path for path in paths(page) if "/" + path.rstrip("/") not in files()) == []


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_every_module_and_its_member_exists(page: Path) -> None:
    assert missing(name for name in modules(page) if not resolves(name)) == []


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_every_class_and_function_exists(page: Path) -> None:
    assert missing(name for name in identifiers(page) if name not in words()) == []


def missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in NOT_IN_THE_TREE]


def test_the_exceptions_are_used() -> None:
    named = {span for page in pages() for span in spans(page)}
    named |= {part for page in pages() for part in (*paths(page), *identifiers(page))}
    assert sorted(set(NOT_IN_THE_TREE) - named) == []


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or a member of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            declared = getattr(found, "__annotations__", {})
            if part in declared:
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
