"""The life of a node: one module changes its phase, and only along legal transitions."""

from pathlib import Path

import pytest

from navarch.core.node import NEXT_PHASES, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.testing.worlds import NOW, a_node

SOURCE = Path(__file__).parents[2] / "src" / "navarch"
GOING = Retirement(reason="XID 79")


def test_only_the_lifecycle_module_changes_the_phase_of_a_node() -> None:
    moving = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        if ".move_to(" in path.read_text("utf-8") and path.parent.name != "testing"
    ]
    assert moving == ["fleet/lifecycle.py"]


@pytest.mark.parametrize("phase", Phase)
def test_a_node_moves_only_along_legal_transitions(phase: Phase) -> None:
    node = a_node("training-0", phase=phase)
    for target in Phase:
        if target in NEXT_PHASES[phase]:
            assert node.move_to(target, at=NOW).phase is target
        else:
            with pytest.raises(AssertionError, match="training-0"):
                node.move_to(target, at=NOW)


def test_a_drain_is_undone_unless_the_node_is_to_be_removed() -> None:
    draining = a_node("training-0", phase=Phase.DRAINING)
    assert lifecycle.undrain(draining, now=NOW).phase is Phase.READY
    leaving = evolve(draining, retiring=GOING)
    assert lifecycle.undrain(leaving, now=NOW) is leaving


def test_a_node_is_gone_at_once_only_if_no_machine_can_exist() -> None:
    asked = a_node("training-0", phase=Phase.REQUESTED)
    assert lifecycle.retire(asked, GOING, now=NOW).phase is Phase.TERMINATING
    refused = evolve(asked, launch=None)
    assert lifecycle.retire(refused, GOING, now=NOW).phase is Phase.GONE


def test_the_bill_of_a_gone_node_ends() -> None:
    gone = lifecycle.gone(a_node("training-0"), "terminated", now=NOW)
    assert gone.launch is not None
    assert gone.launch.ended_at == NOW
