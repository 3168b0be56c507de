"""Phases of nodes change in one module only."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "navarch"


def test_only_the_lifecycle_module_changes_the_phase_of_a_node() -> None:
    moving = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        if ".move_to(" in path.read_text("utf-8") and path.parent.name != "testing"
    ]
    assert moving == ["fleet/lifecycle.py"]
