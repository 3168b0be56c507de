"""Code in the documentation runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs" / "scheduler"
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def test_there_are_blocks_to_run() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block: str) -> None:
    exec(compile(block, "docs", "exec"), {"__name__": "docs"})


def test_every_plugin_is_described() -> None:
    from navarch.scheduler.plugins import built_in_plugins

    page = (DOCS / "index.md").read_text()
    assert [name for name in built_in_plugins().names() if name not in page] == []


def test_every_extension_point_is_described() -> None:
    from navarch.scheduler.framework.hooks import POINTS

    page = (DOCS / "plugins.md").read_text()
    assert [name for name in POINTS if name not in page] == []
