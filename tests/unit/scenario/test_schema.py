"""Valid scenario files, and the messages for invalid ones."""

from pathlib import Path

import pytest
import yaml
from bases import FLEET, POOL, STRESS, Plain, changed, parsed, played

from navarch.config import ConfigError, FileText
from navarch.config.reference import render_reference
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import SECTIONS, load_scenario, parse_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def refusal(plain: Plain) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(plain)
    return str(caught.value)


@pytest.mark.parametrize(
    ("base", "path", "value", "words"),
    [
        (FLEET, ("name",), "", "scenario name is required"),
        (FLEET, ("fleet", 0, "id"), "", "node ID is required"),
        (FLEET, ("fleet", 0, "id"), "n2", "duplicate node ID: n2"),
        (FLEET, ("fleet", 0, "gpus"), 8, 'unknown key "gpus"'),
        (FLEET, ("events", 0, "action"), "begin", 'unknown action "begin"'),
        (FLEET, ("events", 1, "target"), "n9", "node not found: n9"),
        (FLEET, ("events", 1, "params", "failure_type"), "gremlin", "unknown failure type"),
        (FLEET, ("events", 1, "params"), {"failure_type": "straggler"}, "nodes of the same job"),
        (FLEET, ("events", 1, "params", "timeout"), "3s", "does not take params.timeout"),
        (FLEET, ("events", 4, "params", "expected_status"), "fine", 'unknown status "fine"'),
        (FLEET, ("events", 0, "target"), "n1", "start_fleet takes no target"),
        (FLEET, ("assertions", 0, "type"), "vibes", "unknown assertion type: vibes"),
        (FLEET, ("assertions", 0, "expected"), "fine", 'unknown status "fine"'),
        (FLEET, ("assertions", 0, "target"), "n9", "node not found: n9"),
        (FLEET, ("assertions", 0, "before"), "5m", "node_status has no before"),
        (
            FLEET,
            ("assertions", 0),
            {
                "type": "event",
                "target": "node.held",
                "expected": "== 0",
                "after": "2m",
                "before": "1m",
            },
            "no event is after the end",
        ),
        (FLEET, ("control_plane", "replicas"), 0, "replicas must be"),
        (STRESS, ("stress", "fleet_gen", "total_nodes"), 0, "total_nodes must be positive"),
        (STRESS, ("stress", "fleet_gen", "templates"), [], "at least one template is required"),
        (
            STRESS,
            ("stress", "fleet_gen", "templates", 0, "weight"),
            0,
            "template a: weight must be positive",
        ),
        (
            STRESS,
            ("stress", "fleet_gen", "templates", 0, "gpu_count"),
            0,
            "template a: gpu_count must be positive",
        ),
        (
            STRESS,
            ("stress", "fleet_gen", "startup", "pattern"),
            "burst",
            "unknown startup pattern: burst",
        ),
        (
            STRESS,
            ("stress", "chaos", "failure_rate"),
            -1,
            "chaos.failure_rate must be non-negative",
        ),
        (
            STRESS,
            ("stress", "chaos", "cascading", "probability"),
            2,
            "cascading.probability must be between 0 and 1",
        ),
        (POOL, ("jobs", 0, "queue"), "z", 'unknown queue "z"'),
        (POOL, ("pools", "p", "provider"), "z", 'unknown provider "z"'),
    ],
)
def test_invalid_values_are_refused(
    base: Plain, path: tuple[str | int, ...], value: object, words: str
) -> None:
    assert words in refusal(changed(base, (path, value)))


def test_a_refusal_names_the_place_and_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_scenario("name: x\nfleet:\n  - id: n\n    gpu_cuont: 8\n")

    (problem,) = caught.value.problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (4, 5)
    assert problem.remedy == 'did you mean "gpu_count"?'


def test_a_scenario_needs_a_fleet() -> None:
    assert "fleet or stress.fleet_gen must be defined" in refusal({"name": "x", "fleet": []})


def test_a_capacity_trace_from_a_file_is_the_same_as_one_in_the_scenario() -> None:
    trace = "at_seconds,instance_type,machines,reclaim\n720,box,2,true\n"
    given = changed(
        POOL,
        (("providers", "cloud", "capacity"), []),
        (("providers", "cloud", "capacity_trace"), "trace.csv"),
    )
    scenario = parse_scenario(yaml.safe_dump(given), read_file=lambda _: FileText(text=trace))

    assert scenario.providers["cloud"].steps == parsed(POOL).providers["cloud"].steps


LENIENT = """
version: v1
rules: [{name: all-is-well, condition: "true", result: healthy}]
"""


def test_the_policy_of_a_scenario_is_applied() -> None:
    text = yaml.safe_dump(changed(FLEET, (("policy",), "policy.yaml"), (("network",), {})))
    lenient = parse_scenario(text, read_file=lambda _: FileText(text=LENIENT))

    assert run_scenario(lenient).trace != played(changed(FLEET, (("network",), {}))).trace


def test_an_unreadable_policy_is_refused() -> None:
    assert "policy.yaml" in refusal(changed(FLEET, (("policy",), "policy.yaml")))


@pytest.mark.parametrize("path", sorted(SCENARIOS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_valid(path: Path) -> None:
    assert load_scenario(path).name


@pytest.mark.parametrize(
    "name",
    [
        "basic-fleet",
        "cordon-drain",
        "gpu-failure",
        "xid-classification",
        "pool-replacement",
        "control-plane-crash",
        "stock-out",
        "zone-partition",
        "autoscaling",
        "failover",
        "straggler",
        "stress/quick-test",
        "stress/high-failure-test",
        "stress/xid-comprehensive",
        pytest.param("stress/1000-node-chaos", marks=pytest.mark.long),
        pytest.param("stress/cascading-failures", marks=pytest.mark.long),
        pytest.param("stress/5000-node-extreme", marks=pytest.mark.long),
    ],
)
def test_every_shipped_scenario_passes(name: str) -> None:
    outcome = played(yaml.safe_load((SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8")))

    assert outcome.passed, outcome.broken


def test_the_reference_of_scenario_files_is_up_to_date() -> None:
    page = SCENARIOS.parent / "docs" / "reference" / "scenarios.md"
    text = page.read_text(encoding="utf-8")

    assert render_reference(text, SECTIONS) == text
    assert all(f"<!-- keys {section} -->" in text for section in SECTIONS)
