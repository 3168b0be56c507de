"""Extensions tested with realistic scenarios, as a third-party author would."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from bases import FLEET, POOL, changed

from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import AlertOnly
from navarch.ports.autoscaler import PoolState, Recommendation
from navarch.testing.scenarios import ScenarioRun

Build = Callable[[str | Mapping[str, object]], ScenarioRun]

MORNING = """
name: office-hours
providers: {cloud: {boot_min: 60s, boot_max: 90s}}
pools:
  work: {provider: cloud, instance_type: h100-8x, min_nodes: 1, max_nodes: 4, cooldown: 1m,
         scale_down_after: 1m}
timing: {heartbeat_interval: 30s, health_check_interval: 60s}
duration: 12h
events:
  - {at: 7h, action: assert, target: work, params: {failure_type: node_count, expected_status: "1"}}
  - {at: 9h, action: assert, target: work, params: {failure_type: node_count, expected_status: "4"}}
assertions:
  - {type: figure, target: leaks, expected: "== 0"}
  - {type: figure, target: gpu_hours.paid, expected: "<= 220"}
"""


@dataclass(frozen=True)
class OfficeHours:
    """An autoscaler: four nodes from eight in the morning on, one before."""

    name: str = "office-hours"

    def recommend(self, state: PoolState) -> Recommendation:
        busy = 8 <= state.now.hour < 18
        return Recommendation(target_nodes=4 if busy else 1, reason="by the clock")


@dataclass(frozen=True)
class AlwaysMore:
    """An autoscaler that requests more nodes at every call."""

    name: str = "always-more"

    def recommend(self, state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=state.current_nodes + 1, reason="more")


def test_a_custom_autoscaler_decides_the_size(scenario: Build) -> None:
    outcome = scenario(MORNING).with_autoscaler("work", OfficeHours()).check(seed=3)

    assert outcome.figures.gpu_hours.paid > 8 * 12, "it has grown"


def test_a_faulty_autoscaler_fails_the_run(scenario: Build) -> None:
    with pytest.raises(AssertionError, match=r"gpu_hours.paid <= 220"):
        scenario(MORNING).with_autoscaler("work", AlwaysMore()).check()


def test_a_custom_remediator_is_called(scenario: Build) -> None:
    trouble = changed(POOL, (("jobs",), []), (("providers", "cloud", "capacity"), []))

    assert scenario(trouble).run().figures.replacement.count == 1
    assert scenario(trouble).with_remediator(AlertOnly()).run().figures.replacement.count == 0


def test_an_extension_that_breaks_a_law_fails_the_run(scenario: Build) -> None:
    class Saboteur:
        def remediate(self, pool: Pool, node: Node) -> None:
            raise AssertionError(f"{pool.name} would lose {node.id}")

    outcome = scenario(POOL).with_remediator(Saboteur()).run()

    assert not outcome.passed
    assert "would lose p-0" in outcome.broken[0].reason


def test_a_scenario_can_be_given_as_a_mapping(scenario: Build) -> None:
    assert scenario(FLEET).run().scenario == "fleet"


def test_the_example_of_the_guide_runs_as_written(tmp_path: Path) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "simulator.md"
    section = guide.read_text(encoding="utf-8").partition("## From Python and pytest")[2]
    (file,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    (test,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "office-hours.yaml").write_text(file, encoding="utf-8")
    (tmp_path / "test_office_hours.py").write_text(test, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
