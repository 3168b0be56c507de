"""Every reason to remove a node has its module, and no other code removes one."""

import re
from importlib import import_module
from pathlib import Path

import navarch
from navarch.fleet.disruption import REASONS

SOURCE = Path(navarch.__file__).parent
RETIRES = re.compile(r"(?<![\w.])Retire\(node=")


def test_only_the_disruption_package_removes_nodes() -> None:
    outside = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        if RETIRES.search(path.read_text("utf-8"))
        and path.parent != SOURCE / "fleet" / "disruption"
        and path != SOURCE / "fleet" / "plan.py"  # It defines and checks actions, and creates none.
    ]
    assert outside == []


def test_every_reason_has_its_module() -> None:
    for name in REASONS:
        assert import_module(f"navarch.fleet.disruption.{name}").__doc__
