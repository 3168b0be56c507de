"""A health policy that fails while it is used, over every protocol."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.agent.transport import open_link
from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.config.policy import load_policy
from navarch.core.event import about
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.health.policy.engine import compile_policies
from navarch.ports.agents import Link, Registration
from navarch.ports.api import FleetApi, NodeView

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
GREEDY = f"""
version: v1
metadata: {{name: house}}
rules:
  - name: every-combination
    condition: |
      {TEN}.exists(a, {TEN}.exists(b, {TEN}.exists(c, {TEN}.exists(d, {TEN}.exists(e,
        a + b + c + d + e > 45 && event.metrics.xid_code == a)))))
    result: healthy
  - name: hot
    condition: event.event_type == "thermal"
    result: unhealthy
    fatal: true
"""
"""Ten to the power of five steps: more than CEL allows for one evaluation."""

MENDED = """
version: v1
metadata: {name: house}
rules:
  - name: checks
    condition: check.fatal == true
    result: unhealthy
"""

CRASH = CheckResult(
    check="xid/31/GPU-0/7",
    health=Health.HEALTHY,
    reason="XID 31: a program touched memory that is not its own",
    lasting=True,
    facts={"code": "31", "gpu": "GPU-0", "pid": "7", "class": "app"},
)
OFF_THE_BUS = CheckResult(
    check="xid/79/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 79: the GPU has fallen off the bus",
    fatal=True,
    lasting=True,
    facts={"code": "79", "gpu": "GPU-0", "class": "hardware"},
)
HEAT = CheckResult(check="temperature", health=Health.DEGRADED, reason="93 degrees")
FINE = CheckResult(check="gpu", health=Health.HEALTHY)

Story = Callable[[Link, FleetApi, LocalApi], Awaitable[None]]


class Policies:
    """The policies in force, read from a file as a reload does."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "policy.yaml"
        self.load(GREEDY)

    def load(self, text: str) -> None:
        self.file.write_text(text)
        self.book = compile_policies(load_policy(str(self.file)))


def run_story(protocol: str, policies: Policies, story: Story) -> None:
    async def run() -> None:
        local = build_local_api(policies=lambda: policies.book)
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            address = local.http_url or local.grpc_url
            opened = open_link if protocol == "http" else grpc_link
            link, fleet = opened(address, token=lambda: None), connect_fleet(address, None, 10.0)
            try:
                await story(link, fleet, local)
            finally:
                await link.close()
                await fleet.close()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return Policies(tmp_path)


async def shown(fleet: FleetApi, node: NodeId) -> NodeView:
    return (await fleet.get_node(node)).node


def report(*results: CheckResult) -> HealthReport:
    return HealthReport(results=results)


PROTOCOLS = pytest.mark.parametrize("protocol", ["http", "grpc"])


def test_the_policy_of_these_tests_passes_policy_check(policies: Policies) -> None:
    result = CliRunner().invoke(navarch, ["policy", "check", str(policies.file)])
    assert (result.exit_code, "is valid" in result.output) == (0, True), result.output


@PROTOCOLS
def test_a_report_that_no_rule_can_evaluate_is_accepted_and_leaves_the_node_unknown(
    protocol: str, policies: Policies
) -> None:
    async def story(link: Link, fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        assert await link.report_health(node, report(FINE)) is NodeStatus.ACTIVE
        assert await link.report_health(node, report(CRASH)) is NodeStatus.ACTIVE

        view = await shown(fleet, node)
        assert (view.status, view.health) == (NodeStatus.ACTIVE, Health.UNKNOWN)
        assert (view.retiring, view.cordoned) == (None, None)
        (condition,) = view.conditions
        assert condition.check == "policy/xid/31/GPU-0"
        assert "rule every-combination: INTERNAL: Iteration budget" in condition.reason
        events = {x.event.kind: x.event for x in await fleet.events(about=about("node", node))}
        assert "every-combination" in events["health.finding"].facts["broken"], "it is stored"
        assert "policy.failed" in events
        why = await fleet.why(about("node", node))
        assert any("rule every-combination" in step.reason for step in why.steps)

    run_story(protocol, policies, story)


@PROTOCOLS
def test_a_gpu_off_the_bus_is_unhealthy_although_a_rule_fails_on_it(
    protocol: str, policies: Policies
) -> None:
    async def story(link: Link, fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        assert await link.report_health(node, report(OFF_THE_BUS)) is NodeStatus.UNHEALTHY
        view = await shown(fleet, node)
        assert view.health is Health.UNHEALTHY
        assert [c.check for c in view.conditions if c.fatal] == [OFF_THE_BUS.check]

    run_story(protocol, policies, story)


@PROTOCOLS
def test_a_fatal_rule_outweighs_one_that_fails(protocol: str, policies: Policies) -> None:
    async def story(link: Link, fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        assert await link.report_health(node, report(HEAT, CRASH)) is NodeStatus.UNHEALTHY
        (fatal,) = [c for c in (await shown(fleet, node)).conditions if c.fatal]
        assert fatal.facts["rule"] == "hot"

    run_story(protocol, policies, story)


@PROTOCOLS
def test_a_node_recovers_once_the_policy_is_corrected(protocol: str, policies: Policies) -> None:
    async def story(link: Link, fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        await link.report_health(node, report(FINE, CRASH))
        assert (await shown(fleet, node)).health is Health.UNKNOWN
        policies.load(MENDED)
        await link.report_health(node, report(FINE))
        view = await shown(fleet, node)
        assert (view.health, view.conditions) == (Health.HEALTHY, ())

    run_story(protocol, policies, story)


@PROTOCOLS
def test_a_registration_with_a_report_that_no_rule_can_evaluate_is_accepted(
    protocol: str, policies: Policies
) -> None:
    async def story(link: Link, fleet: FleetApi, _doors: LocalApi) -> None:
        node = NodeId("a")
        welcome = await link.register(Registration(node=node, report=report(CRASH)))
        assert welcome.status == NodeStatus.ACTIVE
        assert (await shown(fleet, node)).health is Health.UNKNOWN

    run_story(protocol, policies, story)


@PROTOCOLS
def test_a_finding_without_a_cel_form_is_accepted_and_leaves_the_node_unknown(
    protocol: str, policies: Policies
) -> None:
    async def story(link: Link, fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        odd = CheckResult(
            check="xid/odd", health=Health.HEALTHY, lasting=True, facts={"code": "1.0e999"}
        )
        await link.report_health(node, report(odd))
        view = await shown(fleet, node)
        assert view.health is Health.UNKNOWN
        assert "OverflowError" in view.conditions[0].reason

    run_story(protocol, policies, story)


def test_the_go_systems_agents_get_replies_although_a_rule_fails(policies: Policies) -> None:
    async def story() -> None:
        local = build_local_api(policies=lambda: policies.book)
        node = await local.register("a")
        event = {
            "timestamp": "2026-01-01T00:00:00Z",
            "eventType": "HEALTH_EVENT_TYPE_XID",
            "metrics": {"xid_code": "31"},
        }
        for events, health in (([event], Health.UNKNOWN), ([], Health.HEALTHY)):
            passed = {"checkName": "health_events", "status": "HEALTH_STATUS_HEALTHY"}
            body = {"nodeId": node, "results": [passed], "events": events}
            answer = await call_app(
                local.app,
                "POST",
                "/navarch.ControlPlaneService/ReportHealth",
                json.dumps(body).encode(),
                content_type="application/json",
            )
            assert answer.status == 200, answer.body
            assert (await shown(local.fleet, node)).health is health

    asyncio.run(asyncio.wait_for(story(), 30))
