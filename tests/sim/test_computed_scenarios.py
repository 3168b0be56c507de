"""Scenarios come out the same whether heartbeats are computed or sent one by one."""

from pathlib import Path

import pytest

from navarch.sim.outcome import Outcome
from navarch.sim.scenario.loading import load_scenario, parse_scenario
from navarch.sim.stage.virtual import run_scenario

ROOT = Path(__file__).parents[2]

DENSE = """
name: dense
providers:
  cloud: {boot_min: 20s, boot_max: 60s}
pools:
  training: {provider: cloud, instance_type: h100-8x, min_nodes: 6, max_nodes: 8}
jobs:
  - {name: small, tasks: 2, gpus: 8, at: 1m, duration: 3m, checkpoint_every: 1m, count: 3,
     every: 90s}
network:
  partitions:
    - {at: 4m, duration: 70s, scope: percentage, target: "30"}
control_plane:
  crashes: [{at: 330s, down_for: 20s}]
stress:
  duration: 8m
  fleet_gen:
    total_nodes: 12
    templates: [{name: h100-8gpu, weight: 1, gpu_count: 8}]
    startup: {pattern: linear, duration: 20s}
  chaos:
    enabled: true
    failure_rate: 400
    cascading: {enabled: true, probability: 0.3, max_delay: 10s, scope: zone,
                max_affected_percent: 0.5}
    recovery: {enabled: true, probability: 0.6, mean_time: 40s}
"""


def same(one: Outcome, other: Outcome) -> None:
    assert one.trace == other.trace
    assert one.figures == other.figures
    assert one.nodes == other.nodes


def check(seeds: range) -> None:
    scenario = parse_scenario(DENSE, source="dense")
    for seed in seeds:
        computed = run_scenario(scenario, seed=seed)
        assert computed.figures.injured > 20
        same(computed, run_scenario(scenario, seed=seed, computed=False))


@pytest.mark.parametrize("fives", range(2))
def test_dense_trouble_leaves_the_same_log(fives: int) -> None:
    check(range(fives * 5, fives * 5 + 5))


@pytest.mark.long
@pytest.mark.parametrize("tens", range(1, 20))
def test_dense_trouble_leaves_the_same_log_with_many_more_seeds(tens: int) -> None:
    check(range(tens * 10, tens * 10 + 10))


@pytest.mark.parametrize(
    "name", ["pool-replacement", "zone-partition", "control-plane-crash", "autoscaling"]
)
def test_an_example_leaves_the_same_log(name: str) -> None:
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.yaml")
    same(run_scenario(scenario), run_scenario(scenario, computed=False))
