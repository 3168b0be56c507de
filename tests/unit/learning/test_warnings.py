"""Findings of the control plane: judged by policies and shown like any other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.cli.render.fleet_health import render_fleet_health
from navarch.cli.render.table import Canvas
from navarch.control.health.wear import WearController
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.health.checks.memory import SPARE
from navarch.health.learning.wear import WearReading, evaluate_wear
from navarch.health.policy.engine import compile_policies
from navarch.health.policy.policy import Policy, Rule
from navarch.service.agents import AgentService
from navarch.service.fleet_health import FleetHealthService
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool, indexed

NODE = NodeId("training-0")
THREE_DAYS = Rule(
    name="worn-out",
    condition='event.check == "wear" && event.metrics.days_left < 3.0',
    result=Health.UNHEALTHY,
    fatal=True,
    action="replace",
)


def wearing(per_day: int) -> CheckResult:
    """Return the finding for a GPU that has worn for ten days."""
    steps = 10 * per_day
    readings = [
        WearReading(at=NOW, banks=(640, 0, 0, 0, 0)),
        WearReading(at=NOW + timedelta(days=10), banks=(640 - steps, steps, 0, 0, 0)),
    ]
    found = evaluate_wear("GPU-a", "GPU 3", readings, None, now=NOW + timedelta(days=10))
    assert found is not None
    return found


def play(
    story: Callable[[AgentService, MemoryStore], Awaitable[None]], *rules: Rule
) -> tuple[Node, MemoryStore]:
    clock, store = SimClock(), MemoryStore(Cluster(id="c", secret=b"x" * 32))
    book = compile_policies(Policy(name="test", rules=rules))

    async def main() -> None:
        liveness = TelemetryTable(clock, timeout=timedelta(hours=1))
        agents = AgentService(clock, store, indexed(store), liveness, policies=lambda: book)
        await store.commit(Change(pools=[a_pool()], nodes=[a_node(NODE)]), based_on=0)
        await story(agents, store)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    return store.fleet().nodes[NODE], store


def test_a_rule_may_raise_wear_to_unhealthy() -> None:
    async def story(agents: AgentService, _: MemoryStore) -> None:
        await agents.note_findings(NODE, [wearing(2)])

    without, _ = play(story)
    assert (without.health, without.conditions[0].fatal) == (Health.DEGRADED, False)
    by_rule, store = play(story, THREE_DAYS)
    assert (by_rule.health, by_rule.conditions[0].fatal) == (Health.UNHEALTHY, True)
    assert by_rule.conditions[0].action == "replace"
    assert [i.title for i in store.fleet().incidents.values()], "it is an incident like any other"


def test_a_control_plane_finding_keeps_the_report_number_and_survives_reports() -> None:
    sound = HealthReport(results=(CheckResult(check="rows", health=Health.HEALTHY),))

    async def story(agents: AgentService, store: MemoryStore) -> None:
        heat = CheckResult(check="gpu", health=Health.DEGRADED, reason="hot")
        numbered = HealthReport(results=(heat,), stream="s", number=7)
        await agents.report_health(NODE, numbered)
        await agents.note_findings(NODE, [wearing(1)])
        assert store.fleet().nodes[NODE].report_number == 7
        await agents.report_health(NODE, sound)

    node, _ = play(story)
    assert {condition.check for condition in node.conditions} == {"gpu", "wear/GPU-a"}


def test_fleet_health_shows_wear() -> None:
    async def story(agents: AgentService, store: MemoryStore) -> None:
        await agents.note_findings(NODE, [wearing(1)])
        found = await FleetHealthService(SimClock(), store).fleet_health()
        assert [(w.node, w.kind, w.gpu) for w in found.warnings] == [(NODE, "wear", "GPU-a")]
        text = render_fleet_health(found, Canvas(width=80, now=NOW))
        assert "GPU 3: spare memory rows for about 3 days" in text
        assert all(len(line) <= 80 for line in text.splitlines())

    play(story)


def test_an_unchanged_finding_is_not_repeated() -> None:
    readings = [
        WearReading(at=NOW, banks=(640, 0, 0, 0, 0)),
        WearReading(at=NOW + timedelta(days=2), banks=(630, 10, 0, 0, 0)),
    ]
    node, _ = play(lambda agents, _: agents.note_findings(NODE, [wearing(1)]))
    (condition,) = node.conditions

    again = evaluate_wear("GPU-a", "GPU 3", [*readings], condition, now=NOW + timedelta(days=10))
    assert again is None, "still three days"
    cleared = evaluate_wear("GPU-a", "GPU 3", [*readings], condition, now=NOW + timedelta(days=200))
    assert cleared is not None
    assert cleared.health is Health.HEALTHY, "it has not worn for months"


def test_only_reports_with_spare_rows_trigger_a_wear_evaluation() -> None:
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))

    async def nothing_noted(node: NodeId, found: Sequence[CheckResult]) -> None:
        raise AssertionError((node, found))

    async def story() -> None:
        clock = SimClock()
        loop = ControllerDriver(clock, store, WearController(clock, store, nothing_noted))
        due = [await loop.reconcile()]
        for facts in ({}, {f"{SPARE}GPU-0": "639 1 0 0 0"}):
            result = CheckResult(check="rows", health=Health.HEALTHY, facts=facts)
            loop.controller.on_report(NODE, HealthReport(results=(result,)))
            due.append(loop.due_at())
        assert due == [None, None, clock.now()]

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())
