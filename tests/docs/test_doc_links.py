"""Links in the documentation lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import ROOT, page_name, pages, prose

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def links(page: Path) -> Iterator[str]:
    for match in LINK.finditer(re.sub(r"`[^`\n]*`", "", prose(page))):
        if not match["target"].startswith(("http://", "https://", "mailto:")):
            yield match["target"]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=page_name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{link} leaves the repository"
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{link} names no heading"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    reached = {index.resolve()}
    for link in links(index):
        target = (index.parent / link.partition("#")[0]).resolve()
        reached |= set(target.glob("*.md")) if target.is_dir() else {target}

    missing = [page_name(page) for page in (ROOT / "docs").rglob("*.md") if page not in reached]
    assert missing == []


def test_design_notes_have_one_number_each() -> None:
    notes = sorted((ROOT / "docs" / "design").glob("*.md"))
    numbers = [note.name.partition("-")[0] for note in notes]

    assert len(set(numbers)) == len(numbers)
    for note, number in zip(notes, numbers, strict=True):
        title = note.read_text("utf-8").splitlines()[0]
        assert title.startswith(f"# {number}"), note.name
