"""The page that lists every metric: a test compares it with what is declared."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "metrics.md"


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the type and the labels of each metric."""
    for line in PAGE.read_text("utf-8").splitlines():
        if "| `navarch_" in line:
            cells = [cell.strip() for cell in line.split("|")]
            yield cells[1].strip("`"), cells[2], cells[3]


@cache
def series() -> Mapping[str, frozenset[str]]:
    """Return the labels of each series: a histogram has three."""
    found: dict[str, frozenset[str]] = {}
    for name, kind, cell in rows():
        labels = frozenset(re.findall(r"`(\w+)`", cell))
        if kind == "histogram":
            found |= {f"{name}_sum": labels, f"{name}_count": labels}
            found[f"{name}_bucket"] = labels | {"le"}
        else:
            found[name] = labels
    return found
