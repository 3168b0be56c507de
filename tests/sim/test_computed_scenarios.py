"""Scenarios come out the same whether heartbeats are computed or sent one by one."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.seeds import seeds

from navarch.control.health.ingest import HealthIngest, IngestResult
from navarch.core.fleet import Fleet
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId
from navarch.core.instance import NodeMetrics
from navarch.core.node import Node
from navarch.core.recovery import Command
from navarch.service.agents import AgentService
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario, parse_scenario

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


@pytest.mark.parametrize("fives", seeds(2, gate=1))
def test_dense_trouble_leaves_the_same_log(fives: int) -> None:
    check(range(fives * 5, fives * 5 + 5))


@pytest.mark.long
@pytest.mark.parametrize("tens", range(1, 20))
def test_dense_trouble_leaves_the_same_log_with_many_more_seeds(tens: int) -> None:
    check(range(tens * 10, tens * 10 + 10))


ILL = """
name: ill
duration: 20m
fleet: [{id: n1, provider: gcp, region: r1, zone: r1-a}]
events:
  - {at: 0s, action: start_fleet}
  - {at: 1m, action: inject_failure, target: n1, params: {failure_type: temperature}}
  - {at: 2m, action: inject_failure, target: n1, params: {failure_type: xid_error, xid_code: 31}}
  - {at: 15m, action: recover_failure, target: n1, params: {failure_type: temperature}}
"""


def test_an_unhealthy_machine_is_suspended_once_its_reports_change_nothing() -> None:
    scenario = parse_scenario(ILL, source="ill")
    evaluated: list[HealthReport] = []
    evaluate = HealthIngest.evaluate

    async def counting(
        self: HealthIngest, fleet: Fleet, node: Node, report: HealthReport
    ) -> IngestResult:
        evaluated.append(report)
        return await evaluate(self, fleet, node, report)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HealthIngest, "evaluate", counting)
        computed = run_scenario(scenario)
        few = len(evaluated)
        same(computed, run_scenario(scenario, computed=False))

    assert few < 20
    assert len(evaluated) - few > 100


SOUND = """
name: sound
duration: 20m
fleet: [{id: n1, provider: gcp, region: r1, zone: r1-a}]
events: [{at: 0s, action: start_fleet}]
"""


def test_a_sound_machine_is_suspended_after_its_first_heartbeat() -> None:
    received: list[NodeId] = []
    heartbeat = AgentService.heartbeat

    def counting(
        self: AgentService, node: NodeId, metrics: NodeMetrics | None
    ) -> Sequence[Command]:
        received.append(node)
        return heartbeat(self, node, metrics)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentService, "heartbeat", counting)
        computed = run_scenario(parse_scenario(SOUND, source="sound"))

    assert received == ["n1"]
    assert [node.status for node in computed.nodes] == ["active"]


def test_a_past_fault_is_reported_once_on_an_unhealthy_machine() -> None:
    outcome = run_scenario(parse_scenario(ILL, source="ill"))

    (node,) = outcome.nodes
    found = [entry.text for entry in node.entries if entry.kind == "health.finding"]
    assert [text.partition(":")[0] for text in found] == ["GPU 0", "XID 31 on GPU 0"]


@pytest.mark.parametrize(
    "name",
    ["pool-replacement", "zone-partition", "control-plane-crash", "autoscaling", "straggler"],
)
def test_an_example_leaves_the_same_log(name: str) -> None:
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.yaml")
    same(run_scenario(scenario), run_scenario(scenario, computed=False))
