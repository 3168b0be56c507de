"""The library of real incidents: each shows the figures that it must."""

from pathlib import Path

import pytest

from navarch.sim.kernel.clock import Chance, SeededEntropy
from navarch.sim.runner.generation import failure_moments
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

LIBRARY = Path(__file__).parents[2] / "scenarios" / "incidents"
LLAMA3 = LIBRARY / "llama3-pretraining.yaml"


@pytest.mark.long
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(LIBRARY.glob("*.yaml")) if path != LLAMA3],
    ids=lambda path: path.stem,
)
def test_an_incident_shows_its_figures(path: Path) -> None:
    outcome = run_scenario(load_scenario(path))
    assert outcome.broken == ()
    assert len(outcome.verdicts) >= 4


def test_llama_3_breaks_as_often_and_by_what_was_published() -> None:
    scenario = load_scenario(LLAMA3)
    assert scenario.stress is not None
    chaos = scenario.stress.chaos
    nodes = scenario.pools["pretraining"].min_nodes
    moments = failure_moments(
        scenario.stress.duration,
        rate=chaos.failure_rate,
        nodes=nodes,
        chance=Chance(SeededEntropy("any")),
    )
    assert len(moments) == 419
    weights = {str(each.type): each.weight for each in chaos.failure_types}
    assert sum(weights.values()) == 419
    assert weights["xid_error"] == sum((chaos.xid_distribution or {}).values())
    assert scenario.jobs[0].tasks * scenario.jobs[0].gpus == 16_384
