"""The simulated agent and the product's agent report the same about the same machine."""

from collections.abc import Sequence
from typing import Any

import pytest

from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.ports.agents import Registration, Welcome
from navarch.service.agents import AgentService
from navarch.sim.runner.outcome import Outcome
from navarch.testing.scenarios import scenario

FAILURES = [
    "failure_type: xid_error, xid_code: 79, gpu_index: 2",
    "failure_type: xid_error, xid_code: 31",
    "failure_type: temperature",
    "failure_type: nvml_failure",
    "failure_type: device_error, gpu_index: 1",
    "failure_type: memory_error",
    "failure_type: nvlink_error",
    "failure_type: boot_failure",
    "failure_type: network",
    "failure_type: check, check: fans, health: degraded",
    "failure_type: check, check: fans, fatal: true, lasting: true",
]

STORY = """
name: one
duration: 6m
timing: {{heartbeat_interval: 10s, heartbeat_timeout: 30s, health_check_interval: 10s}}
agents: {{fidelity: {fidelity}}}
fleet:
  - {{id: n1, provider: gcp, region: r1, zone: r1-a, gpu_count: 4, labels: {{rack: x}}}}
events:
  - {{at: 0s, action: start_fleet}}
  - {{at: 61s, action: inject_failure, target: n1, params: {{{failure}}}}}
  - {{at: 181s, action: recover_failure, target: n1}}
  - {{at: 241s, action: install_driver, target: n1, params: {{driver: "570"}}}}
"""

Told = tuple[str, frozenset[tuple[object, ...]]]


class Received:
    """Everything that agents report, as the control plane receives it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.registrations: list[Registration] = []
        self.reports: list[Told] = []
        register, report_health = AgentService.register, AgentService.report_health

        async def registered(service: AgentService, registration: Registration) -> Welcome:
            self.registrations.append(registration)
            self._add(registration.boot_id, registration.report)
            return await register(service, registration)

        async def reported(service: AgentService, node: NodeId, report: HealthReport) -> Any:  # noqa: ANN401
            self._add(report.boot_id, report)
            return await report_health(service, node, report)

        monkeypatch.setattr(AgentService, "register", registered)
        monkeypatch.setattr(AgentService, "report_health", reported)

    def _add(self, boot_id: str, report: HealthReport | None) -> None:
        """Keep a report unless it repeats the last one, or part of it that is well.

        The simulated agent leaves out reports that repeat that all is well.
        """
        if report is None:
            return
        content = _content(report.results)
        last_boot, last = self.reports[-1] if self.reports else ("", frozenset())
        well = all(each.health is Health.HEALTHY for each in report.results)
        if boot_id == last_boot and (content == last or (well and content <= last)):
            return
        self.reports.append((boot_id, content))


def _content(results: Sequence[CheckResult]) -> frozenset[tuple[object, ...]]:
    return frozenset(
        (each.check, each.health, each.reason, each.fatal, each.lasting, each.action)
        for each in results
    )


def run(fidelity: str, failure: str) -> Outcome:
    return scenario(STORY.format(fidelity=fidelity, failure=failure)).run()


@pytest.mark.parametrize("failure", FAILURES)
def test_both_agents_register_and_report_the_same(
    failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as first:
        simulated = Received(first)
        expected = run("simulated", failure)
    with monkeypatch.context() as second:
        real = Received(second)
        outcome = run("real", failure)

    assert real.reports == simulated.reports
    assert len(simulated.reports) >= 2
    assert BOOT in {check for _, results in real.reports for check, *_ in results}
    assert [_identity(each) for each in real.registrations] == [
        _identity(each) for each in simulated.registrations
    ]
    assert {node.status for node in outcome.nodes} == {node.status for node in expected.nodes}
    assert outcome.failures == expected.failures


def _identity(registration: Registration) -> tuple[object, ...]:
    inventory = registration.inventory
    gpus = [(gpu.index, gpu.uuid, gpu.name, gpu.driver_version) for gpu in inventory.gpus]
    return (
        registration.node,
        registration.token,
        registration.boot_id,
        registration.place,
        dict(inventory.labels),
        gpus,
    )


def test_a_share_of_machines_runs_the_product_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    received = Received(monkeypatch)
    scenario("""
name: mixed
duration: 2m
agents: {fidelity: real, share: 0.5}
stress:
  duration: 2m
  fleet_gen: {total_nodes: 20, templates: [{name: box, weight: 1, gpu_count: 8}]}
""").run()
    versions = [bool(each.inventory.agent_version) for each in received.registrations]
    assert len(versions) == 20
    assert 5 <= sum(versions) <= 15


@pytest.mark.parametrize("seed", range(3))
def test_product_agents_pass_through_a_crash_of_the_control_plane(seed: int) -> None:
    outcome = scenario("""
name: crash
agents: {fidelity: real, share: 0.5}
timing: {heartbeat_interval: 10s, heartbeat_timeout: 30s, health_check_interval: 10s}
providers: {cloud: {boot_min: 1m, boot_max: 2m}}
pools: {p: {provider: cloud, instance_type: h100-8x, min_nodes: 6, max_nodes: 8}}
control_plane: {crashes: [{at: 12m, down_for: 20s}]}
duration: 40m
events:
  - at: 10m
    action: inject_failure
    target: p-1
    params: {failure_type: xid_error, xid_code: 79}
assertions:
  - {type: node_count, target: p, expected: "6"}
  - {type: figure, target: false_cordons, expected: "== 0"}
  - {type: figure, target: undetected, expected: "== 0"}
""").check(seed=seed)
    assert outcome.crashes == 1
