"""Reports evaluated into verdicts and incidents: repeated, late, concurrent, across restarts."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import pytest

from navarch.config.policy import default_policy, parse_policy
from navarch.control.health.incidents import CLOSED_MAX, KEEP, IncidentController
from navarch.core.alert import AlertCause
from navarch.core.event import about
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import SILENCE, Incident, IncidentState
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.fleet.alerts.conditions import AlertInputs, find_conditions
from navarch.fleet.verdicts import overridden
from navarch.health.checks.xid import assess_xid
from navarch.health.conditions import TIMES_MAX
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.health.policy.policy import Policy
from navarch.service.agents import AgentService
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import ControllerDriver, a_node, a_pool, indexed

NODE = NodeId("training-0")


class Site:
    """A store, and the services that receive reports."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.columns = TelemetryTable(self.clock, timeout=timedelta(minutes=5))
        self.policies = compile_policies(default_policy())
        self.agents = self.receive()
        self.reconciler = self.close()

    def close(self) -> ControllerDriver[IncidentController]:
        """Return a controller of incidents with the store's state only."""
        controller = IncidentController(self.clock, self.store, indexed(self.store))
        return ControllerDriver(self.clock, self.store, controller)

    def receive(self) -> AgentService:
        """Return a control plane with the store's state only."""
        return AgentService(
            self.clock,
            self.store,
            indexed(self.store),
            self.columns,
            policies=lambda: self.policies,
            utilization=self.columns.utilization,
        )

    async def commit(self, change: Change) -> None:
        await self.store.commit(change, based_on=self.store.fleet().revision)

    async def fill(self, *nodes: Node) -> None:
        change = Change(pools=[a_pool(), a_pool("other")], nodes=nodes or [self.node()])
        await self.store.commit(change, based_on=0)

    def node(self, name: str = NODE, pool: str = "training", **facts: object) -> Node:
        born = self.clock.now() - timedelta(hours=1)
        known = {"boot_id": "boot-1", "booted_at": born, "registered_at": born, **facts}
        return a_node(name, pool, **known)  # type: ignore[arg-type]

    def xid(self, code: int, *, gpu: int = 0, pid: int | None = None) -> CheckResult:
        assessment = assess_xid(code)
        harmless = assessment.health is Health.HEALTHY and pid is not None
        facts = {
            "code": str(code),
            "gpu": f"GPU-{gpu}",
            "class": str(assessment.entry.origin),
            "at": self.clock.now().isoformat(),
        }
        return CheckResult(
            check=f"xid/{code}/GPU-{gpu}" + (f"/{pid}" if harmless else ""),
            health=assessment.health,
            reason=f"XID {code}",
            fatal=assessment.fatal,
            lasting=True,
            action=str(assessment.action),
            facts=facts | ({"pid": str(pid)} if pid is not None else {}),
        )

    async def report(self, *results: CheckResult, node: NodeId = NODE, number: int = 0) -> None:
        stream = "s" if number else ""
        report = HealthReport(results=results, stream=stream, number=number, at=self.clock.now())
        await self.agents.report_health(node, report)

    @property
    def incidents(self) -> list[Incident]:
        return list(self.store.fleet().incidents.values())

    def health(self, node: NodeId = NODE) -> Health:
        return self.store.fleet().nodes[node].health

    async def kinds(self, subject: str) -> list[str]:
        found = await self.store.events(about=about(*subject.split("/", 1)))
        return [entry.event.kind for entry in found]


def play(story: Callable[[Site], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Site())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def policies(policy: Mapping[str, object], pool: str | None = None) -> PolicySet:
    made: Policy = parse_policy(json.dumps(policy))
    if pool is None:
        return compile_policies(made)
    return compile_policies(default_policy(), {PoolName(pool): made})


HOT = CheckResult(check="temperature", health=Health.DEGRADED, reason="95 C")
WARM = CheckResult(check="temperature", health=Health.HEALTHY)

STRICT: dict[str, object] = {
    "metadata": {"name": "strict"},
    "rules": [{"name": "any", "condition": 'event.event_type == "xid"', "result": "unhealthy"}],
}
THREE: dict[str, object] = {
    "metadata": {"name": "three"},
    "rules": [
        {
            "name": "three",
            "condition": 'event.event_type == "xid"',
            "count": 3,
            "within": "1h",
            "result": "unhealthy",
        }
    ],
}


def test_a_fatal_error_commits_verdict_condition_and_incident_together() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        await site.report(site.xid(79))

        assert site.store.fleet().revision == 2
        assert site.health() is Health.UNHEALTHY
        (incident,) = site.incidents
        assert (incident.code, incident.action, incident.pool) == ("79", "reboot_node", "training")
        assert await site.kinds(f"node/{NODE}") == ["health.finding", "node.health"]
        assert await site.kinds(f"incident/{incident.id}") == ["incident.opened"]
        (finding, health) = await site.store.events(about=about("node", NODE))
        assert finding.event.because == health.event.because == (about("incident", incident.id),)

    play(story)


def test_repeated_reports_and_findings_change_nothing() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        crash, fatal = site.xid(31, pid=7), site.xid(79, gpu=1)
        await site.report(crash, fatal, number=1)
        before = site.store.fleet()

        await site.report(crash, fatal, number=1)
        await site.report(crash, fatal, number=2)
        seen_twice = evolve(crash, facts={**crash.facts, "sources": "kmsg,nvml"})
        await site.report(seen_twice, number=3)

        assert site.store.fleet().revision == before.revision

    play(story)


def test_an_identical_report_changes_nothing_once_it_has_been_counted() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        for _ in range(TIMES_MAX + 1):
            await site.report(HOT)
        before = site.store.fleet()

        await site.report(HOT)
        site.policies = policies(STRICT)
        await site.report(HOT)

        assert site.store.fleet() is before

    play(story)


def test_a_late_repeat_of_a_crash_opens_no_second_incident() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        crash = site.xid(31, pid=7)
        await site.report(crash)
        await site.clock.sleep(SILENCE.total_seconds())
        await site.reconciler.reconcile()
        another = site.xid(31, pid=8)
        await site.report(crash, another)
        await site.clock.sleep(SILENCE.total_seconds())
        await site.reconciler.reconcile()
        assert [x.state for x in site.incidents] == [IncidentState.RESOLVED] * 2
        before = site.store.fleet()

        await site.report(crash, another)
        site.agents = site.receive()
        await site.report(crash, another)
        assert site.store.fleet().revision == before.revision

        await site.report(site.xid(31, pid=7))
        assert len(site.incidents) == 3

    play(story)


def test_a_count_continues_after_a_restart_of_the_control_plane() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        site.policies = policies(THREE)
        for pid in (7, 8):
            await site.report(site.xid(31, pid=pid))
            await site.clock.sleep(600)
        site.policies = policies(THREE)
        site.agents = site.receive()

        await site.report(site.xid(31, pid=9))

        assert site.health() is Health.UNHEALTHY
        assert site.store.fleet().nodes[NODE].conditions[0].facts["rule"] == "three"

    play(story)


def test_a_count_drops_events_before_its_window() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        site.policies = policies(THREE)
        for pid in (7, 8, 9):
            await site.report(site.xid(31, pid=pid))
            await site.clock.sleep(1801)
        assert site.health() is Health.HEALTHY

    play(story)


def test_a_pool_with_a_policy_uses_it_and_other_pools_the_fleets() -> None:
    async def story(site: Site) -> None:
        other = NodeId("other-0")
        await site.fill(site.node(), site.node("other-0", "other"))
        site.policies = policies(STRICT, "other")
        for name in (NODE, other):
            await site.report(site.xid(31, pid=7), node=name)

        assert (site.health(NODE), site.health(other)) == (Health.HEALTHY, Health.UNHEALTHY)
        (condition,) = site.store.fleet().nodes[other].conditions
        assert condition.check == "xid/31/GPU-0", "the process is no part of a condition's name"
        assert "by rule any of policy strict" in condition.reason

    play(story)


def test_a_failing_rule_loses_no_finding_and_is_journalled() -> None:
    failing = {
        "rules": [
            {"name": "hot", "condition": "event.metrics.temperature > 90", "result": "degraded"},
            {"name": "calm", "condition": "true", "result": "healthy"},
        ]
    }

    async def story(site: Site) -> None:
        await site.fill()
        site.policies = policies(failing)
        await site.report(site.xid(79))

        assert site.health() is Health.UNHEALTHY
        (finding, failed, _) = await site.store.events(about=about("node", NODE))
        assert finding.event.facts["broken"].startswith("hot: ")
        assert failed.event.kind == "policy.failed"
        assert "could not be applied" in site.store.fleet().nodes[NODE].conditions[0].reason

    play(story)


def test_concurrent_reports_from_one_nvlink_domain_open_one_incident() -> None:
    async def story(site: Site) -> None:
        trays = [site.node(f"training-{i}", labels={"nvlink_domain": "rack-1"}) for i in range(72)]
        await site.fill(*trays)
        reports = [
            site.report(*(site.xid(149, gpu=gpu) for gpu in range(4)), node=tray.id)
            for tray in trays
        ]
        await asyncio.gather(*reports)

        (incident,) = site.incidents
        assert set(incident.nodes) == {tray.id for tray in trays}
        assert incident.domain == "rack-1"

    play(story)


def test_a_crash_is_over_after_three_minutes_and_a_broken_gpu_is_not() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        await site.report(site.xid(31, pid=7), site.xid(48, gpu=1))
        assert await site.reconciler.reconcile() == site.clock.now() + SILENCE
        await site.clock.sleep(SILENCE.total_seconds())
        await site.reconciler.reconcile()

        states = {incident.code: incident.state for incident in site.incidents}
        assert states == {"31": IncidentState.RESOLVED, "48": IncidentState.OPEN}

        node = site.store.fleet().nodes[NODE]
        gone = evolve(node, phase=Phase.GONE)
        await site.store.commit(Change(nodes=[gone]), based_on=site.store.fleet().revision)
        await site.reconciler.reconcile()
        assert {incident.state for incident in site.incidents} == {IncidentState.RESOLVED}
        (broken,) = [incident for incident in site.incidents if incident.code == "48"]
        assert broken.note == "its node is gone"
        assert await site.kinds(f"incident/{broken.id}") == ["incident.opened", "incident.closed"]

    play(story)


def test_incidents_expire_on_the_same_date_after_a_restart() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        await site.report(site.xid(31, pid=7))
        await site.clock.sleep(SILENCE.total_seconds())
        await site.reconciler.reconcile()
        again = site.close()
        await again.reconcile()
        assert len(site.incidents) == 1
        await site.clock.sleep(KEEP.total_seconds())
        await again.reconcile()
        assert site.incidents == []

    play(story)


def test_the_number_of_closed_incidents_is_limited() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        await site.report(site.xid(31, pid=7))
        (first,) = site.incidents
        closed = [
            evolve(first, id=f"inc-{i}", closed_at=site.clock.now())  # type: ignore[arg-type]
            for i in range(CLOSED_MAX + 5)
        ]
        await site.store.commit(Change(incidents=closed), based_on=site.store.fleet().revision)
        await site.reconciler.reconcile()
        left = [incident for incident in site.incidents if not incident.is_open]
        assert len(left) == CLOSED_MAX
        assert "inc-0" not in {incident.id for incident in left}, "the oldest go first"

    play(story)


GREEDY: dict[str, object] = {
    "metadata": {"name": "greedy"},
    "rules": [
        {
            "name": "pairs",
            "condition": "event.sources.exists(a, event.sources.exists(b, "
            "event.sources.exists(c, a + b + c == 'x')))",
            "result": "unhealthy",
        },
        {"name": "lost", "condition": 'event.message == "XID 119"', "result": "unhealthy"},
        {"name": "calm", "condition": "true", "result": "healthy"},
    ],
}
"""Its first rule exceeds CEL's step limit for a finding with 25 sources."""

MENDED: dict[str, object] = {
    "metadata": {"name": "mended"},
    "rules": [{"name": "calm", "condition": "true", "result": "healthy"}],
}


def crowded(result: CheckResult) -> CheckResult:
    """Return `result` as seen by 25 sources."""
    sources = ",".join(f"source-{i}" for i in range(25))
    return evolve(result, facts={**result.facts, "sources": sources})


EVENT = CheckResult(check="health_events", health=Health.HEALTHY, facts={"event_type": "ecc_sbe"})
QUIET = CheckResult(check="health_events", health=Health.HEALTHY)


@pytest.mark.parametrize("kind", ["happened", "is so", "degraded"])
def test_a_finding_that_no_rule_can_judge_makes_the_node_at_least_unknown(
    kind: str,
) -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill(site.node(health=Health.HEALTHY))
        results = {"happened": site.xid(31, pid=7), "is so": EVENT, "degraded": HOT}
        await site.report(crowded(results[kind]))

        node = site.store.fleet().nodes[NODE]
        assert node.health is (Health.DEGRADED if kind == "degraded" else Health.UNKNOWN)
        (unjudged,) = [c for c in node.conditions if c.health is Health.UNKNOWN]
        assert not unjudged.fatal
        assert unjudged.reason.startswith("policy greedy cannot judge")
        assert "rule pairs: INTERNAL: Iteration budget exceeded" in unjudged.reason
        (failed,) = [
            entry.event
            for entry in await site.store.events(about=about("node", NODE))
            if entry.event.kind == "policy.failed"
        ]
        inputs = AlertInputs(fleet=site.store.fleet(), now=failed.at)
        causes = {each.cause for each in find_conditions(inputs).values()}
        assert AlertCause.POLICY_FAILED in causes, "people are alerted"
        assert unjudged.reason in failed.reason

    play(story)


def test_a_rule_that_evaluates_overrides_one_that_fails() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        await site.report(crowded(site.xid(119)), crowded(site.xid(31, pid=7)))

        node = site.store.fleet().nodes[NODE]
        assert node.health is Health.UNHEALTHY
        (fatal,) = [c for c in node.conditions if c.fatal]
        assert fatal.facts["rule"] == "lost"

    play(story)


@pytest.mark.parametrize("kind", ["happened", "is so"])
def test_a_node_that_could_not_be_judged_recovers_with_its_next_report_under_another_policy(
    kind: str,
) -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        await site.report(crowded(site.xid(31, pid=7) if kind == "happened" else EVENT))
        assert site.health() is Health.UNKNOWN
        site.agents = site.receive()
        await site.report(WARM)
        assert site.health() is Health.UNKNOWN, "a restart with the same rules mends no rule"

        site.policies = policies(MENDED)
        await site.report(WARM)

        assert site.health() is Health.HEALTHY
        assert site.store.fleet().nodes[NODE].conditions == ()

    play(story)


def test_an_unjudged_state_ends_when_its_check_passes() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        await site.report(crowded(EVENT))
        await site.report(WARM)
        assert site.health() is Health.UNKNOWN, "another check passed"
        blind = evolve(QUIET, health=Health.UNKNOWN, reason="the check itself failed")
        await site.report(blind)
        assert site.health() is Health.UNKNOWN, "the check did not look"
        await site.report(QUIET)
        assert site.health() is Health.HEALTHY

    play(story)


def test_an_unjudged_event_is_not_cleared_by_a_healthy_round() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        await site.report(crowded(site.xid(31, pid=7)))
        await site.report(CheckResult(check="xid", health=Health.HEALTHY))
        assert site.health() is Health.UNKNOWN
        await site.clock.sleep(60)
        await site.report(site.xid(31, pid=8))
        assert site.health() is Health.HEALTHY, "the same event, which the rules can judge"

    play(story)


def test_an_unjudged_state_keeps_its_first_date() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        since = site.clock.now()
        for _ in range(3):
            await site.report(crowded(EVENT))
            await site.clock.sleep(60)
        (condition,) = site.store.fleet().nodes[NODE].conditions
        assert (condition.since, condition.times) == (since, 3)

    play(story)


def test_an_override_holds_when_an_unjudged_finding_is_repeated() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        crash = crowded(site.xid(31, pid=7))
        await site.report(crash)
        after, events = overridden(
            site.store.fleet().nodes[NODE], "it was the program", now=site.clock.now()
        )
        await site.commit(Change(nodes=[after], events=events))
        await site.report(crash)
        assert site.health() is Health.HEALTHY

    play(story)


def test_a_new_policy_that_fails_on_a_repeated_event_leaves_the_node_unknown() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        crash = crowded(site.xid(31, pid=7))
        await site.report(crash)
        site.policies = policies({**GREEDY, "metadata": {"name": "greedier"}})
        await site.report(crash)
        (condition,) = site.store.fleet().nodes[NODE].conditions
        assert (site.health(), condition.health) == (Health.UNKNOWN, Health.UNKNOWN)
        assert condition.reason.startswith("policy greedier cannot judge")

    play(story)


def test_a_rule_that_fails_repeatedly_alerts_once() -> None:
    async def story(site: Site) -> None:
        site.policies = policies(GREEDY)
        await site.fill()
        for gpu in range(3):
            await site.report(crowded(EVENT), crowded(site.xid(31, gpu=gpu, pid=7)))
        assert (await site.kinds(f"node/{NODE}")).count("policy.failed") == 1

    play(story)


def test_a_check_that_could_not_run_changes_nothing() -> None:
    async def story(site: Site) -> None:
        await site.fill(site.node(health=Health.HEALTHY))
        blind = CheckResult(check="temperature", health=Health.UNKNOWN, reason="not looked at")
        await site.report(blind)
        assert site.health() is Health.HEALTHY

    play(story)


def test_a_state_of_an_earlier_boot_does_not_change_the_node() -> None:
    async def story(site: Site) -> None:
        await site.fill()
        for boot_id, conditions in (("boot-0", 0), ("boot-1", 1)):
            report = HealthReport(results=(HOT,), boot_id=boot_id, at=site.clock.now())
            await site.agents.report_health(NODE, report)
            assert len(site.store.fleet().nodes[NODE].conditions) == conditions, boot_id

    play(story)
