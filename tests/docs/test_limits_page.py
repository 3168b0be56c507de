"""The page of the limits has the table of the program. NAVARCH_RECORD_GOLDEN=1 rewrites it."""

import os
from pathlib import Path

from navarch.core.limits import LIMITS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
MARK = "<!-- limits: written by tests/docs/test_limits_page.py -->\n"


def render_table() -> str:
    rows = ["| At most | of | More |", "|---:|---|---|"]
    rows += [f"| {limit.most:,} | {limit.what} | {limit.beyond} |" for limit in LIMITS]
    return "\n".join(rows) + "\n"


def test_the_page_has_every_limit_with_its_number() -> None:
    before, mark, table = PAGE.read_text(encoding="utf-8").partition(MARK)
    if os.environ.get("NAVARCH_RECORD_GOLDEN"):
        table = "\n" + render_table()
        PAGE.write_text(before + mark + table, encoding="utf-8")

    assert table.lstrip() == render_table()
