"""The messages on the page about troubleshooting are messages of the product."""

import re
from functools import cache

import pytest
from doc_pages import ROOT

ROWS = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8").splitlines()
SYMPTOMS = [row.split("|")[1] for row in ROWS if row.startswith("| ")][1:]
MESSAGES = [message for symptom in SYMPTOMS for message in re.findall(r'"([^"]+)"', symptom)]
VARIES = re.compile(r"\.\.\.|\d+ ?%?")


@cache
def source() -> str:
    """Return the code, with literals that span lines joined."""
    texts = [path.read_text("utf-8") for path in (ROOT / "src" / "navarch").rglob("*.py")]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))


@pytest.mark.parametrize("message", MESSAGES)
def test_the_product_has_the_message(message: str) -> None:
    """Figures and names vary; the words between them do not."""
    parts = [part.strip(" ,;") for part in VARIES.split(message)]
    assert [part for part in parts if part not in source()] == []


def test_there_are_messages() -> None:
    assert len(MESSAGES) >= 8
