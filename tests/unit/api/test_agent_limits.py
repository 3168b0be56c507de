"""What a hostile agent sends is bounded, for every door, and a sound agent is never refused."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import process_time

import pytest
from tests.support.local_api import H100, LocalApi, build_local_api

from navarch.core.errors import InvalidError, NotPossibleError
from navarch.core.health import CheckResult, Condition, Health, HealthReport
from navarch.core.ids import IncidentId, NodeId, Token
from navarch.core.instance import Gpu, Inventory
from navarch.core.limits import (
    CHECK_LENGTH,
    CONDITIONS_PER_NODE,
    FACT_LENGTH,
    FACTS_LENGTH,
    FACTS_PER_RESULT,
    FAULTS_PER_REPORT,
    GPUS_PER_NODE,
    INCIDENTS_PER_NODE,
    LABEL_LENGTH,
    LABELS_LENGTH,
    LABELS_PER_NODE,
    NAME_LENGTH,
    REASON_LENGTH,
    RESULTS_PER_REPORT,
    TEXT_LENGTH,
)
from navarch.core.records import evolve
from navarch.health.conditions import EXPLAINED_MAX, evaluate, explain
from navarch.health.incidents.finding import finding_of
from navarch.health.incidents.grouping import COUNT_MAX, group
from navarch.ports.agents import Registration
from navarch.service.agent_limits import bounded

NODE = NodeId("gpu-1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failing(name: str, *, fatal: bool = False, **values: object) -> CheckResult:
    return CheckResult(check=name, health=Health.UNHEALTHY, fatal=fatal, **values)  # type: ignore[arg-type]


def passing(name: str) -> CheckResult:
    return CheckResult(check=name, health=Health.HEALTHY)


@pytest.mark.parametrize(
    ("place", "registration"),
    [
        ("$.node", Registration(node=NodeId("n" * (NAME_LENGTH.most + 1)), inventory=Inventory())),
        (
            "$.inventory.labels",
            Registration(
                node=NODE,
                inventory=Inventory(labels={f"l{i}": "" for i in range(LABELS_PER_NODE.most + 1)}),
            ),
        ),
        (
            "$.inventory.labels['team']",
            Registration(
                node=NODE, inventory=Inventory(labels={"team": "x" * (LABEL_LENGTH.most - 3)})
            ),
        ),
        (
            "$.inventory.gpus",
            Registration(
                node=NODE,
                inventory=Inventory(
                    gpus=tuple(Gpu(index=0, uuid="") for _ in range(GPUS_PER_NODE.most + 1))
                ),
            ),
        ),
        (
            "$.inventory.labels",
            Registration(
                node=NODE,
                inventory=Inventory(
                    labels={f"l{i:02}": "x" * 1000 for i in range(LABELS_LENGTH.most // 1000 + 1)}
                ),
            ),
        ),
        (
            "$.inventory.hostname",
            Registration(node=NODE, inventory=Inventory(hostname="x" * (TEXT_LENGTH.most + 1))),
        ),
        (
            "$.inventory",
            Registration(node=NODE, inventory=Inventory(commands=("x" * 2**20,))),
        ),
        ("$.node", Registration(node=NodeId("é" * 43))),
        ("$.boot_id", Registration(node=NODE, boot_id="x" * (TEXT_LENGTH.most + 1))),
        ("$.token", Registration(node=NODE, token=Token("x" * (TEXT_LENGTH.most + 1)))),
        (
            "$.place.zone",
            Registration(node=NODE, place=evolve(H100, zone="x" * (TEXT_LENGTH.most + 1))),
        ),
    ],
)
def test_a_registration_above_a_limit_is_refused_and_changes_nothing(
    place: str, registration: Registration
) -> None:
    async def story() -> None:
        local = build_local_api()
        with pytest.raises(InvalidError) as refused:
            await local.agents.register(registration)
        assert str(refused.value).startswith(f"{place}: "), refused.value
        assert not local.store.fleet().nodes

    asyncio.run(story())


def test_a_report_at_the_limit_is_judged_by_its_worst_faults_and_what_is_healthy() -> None:
    faults = [failing(f"check-{i}") for i in range(RESULTS_PER_REPORT.most - 2)]
    last = passing("disk"), failing("gpu", fatal=True)

    kept = bounded(NODE, HealthReport(results=(*faults, *last))).results

    assert kept == (*faults[: FAULTS_PER_REPORT.most - 1], *last)


def test_a_large_report_clears_every_fault_that_has_passed() -> None:
    """Otherwise a machine with many checks would keep a fault for ever, and be replaced."""
    report = HealthReport(
        results=tuple(passing(f"check-{i}") for i in range(RESULTS_PER_REPORT.most))
    )

    assert bounded(NODE, report) == report


def test_a_report_beyond_any_storm_is_refused() -> None:
    report = HealthReport(results=(passing("c"),) * (RESULTS_PER_REPORT.most + 1))

    with pytest.raises(InvalidError, match="above the limit of 2000 results per report"):
        bounded(NODE, report)


def test_texts_of_a_report_are_cut() -> None:
    facts = {"y" * 10_000: "z"} | {f"fact-{i}": "x" * 10_000 for i in range(100)}
    report = HealthReport(
        results=(failing("c" * 10_000, reason="r" * 10_000, action="a" * 10_000, facts=facts),)
    )

    (kept,) = bounded(NODE, report).results

    assert len(kept.check) == len(kept.action) == CHECK_LENGTH.most
    assert len(kept.reason) == REASON_LENGTH.most
    assert list(kept.facts) == [f"fact-{i}" for i in range(FACTS_LENGTH.most // FACT_LENGTH.most)]
    assert all(len(k) + len(v) == FACT_LENGTH.most for k, v in kept.facts.items())
    assert bounded(NODE, HealthReport(results=(kept,))).results == (kept,)


def test_a_result_has_a_limited_number_of_facts() -> None:
    facts = {f"fact-{i:02}": "x" * 8 for i in range(99)}

    (kept,) = bounded(NODE, HealthReport(results=(failing("c", facts=facts),))).results

    assert list(kept.facts.items()) == list(facts.items())[: FACTS_PER_RESULT.most]


@pytest.mark.parametrize("field", ["stream", "boot_id"])
def test_a_report_with_a_long_text_of_its_own_is_refused(field: str) -> None:
    values = {field: "x" * (TEXT_LENGTH.most + 1)}
    with pytest.raises(InvalidError, match=rf"\$\.report\.{field}: 1025"):
        bounded(NODE, HealthReport(results=(), **values))  # type: ignore[arg-type]


@pytest.mark.parametrize("times", ["9" * 500, "0" * 500, "²", "-1", ""])
def test_the_count_of_a_symptom_can_be_stored_and_read_again(times: str) -> None:
    async def story() -> None:
        local = build_local_api()
        node = await local.register(NODE)
        facts = {"code": "79", "kind": "xid", "gpu": "GPU-0", "times": times}
        for number in (1, 2, 3):
            result = failing("xid/79", lasting=True, facts=facts | {"number": str(number)})
            report = HealthReport(results=(result,), stream="s", number=number)
            await local.agents.report_health(node, report)
        (incident,) = local.store.fleet().incidents.values()
        assert all(0 <= each.count <= COUNT_MAX for each in incident.symptoms)

    asyncio.run(story())


def test_a_node_with_many_incidents_changes_none_that_another_node_opened() -> None:
    async def story() -> None:
        local = build_local_api()
        other = await local.register("other")
        node = await local.register(NODE)
        await local.agents.report_health(other, an_attack(1))
        before = {x.id: x for x in local.store.fleet().incidents.values()}
        for number in range(1, 4):
            await local.agents.report_health(node, an_attack(number))
        after = local.store.fleet().incidents
        assert {name: after[name] for name in before} == before
        assert len(after) == len(before) + INCIDENTS_PER_NODE.most

    asyncio.run(story())


def test_findings_beyond_the_limit_join_an_incident_that_the_node_opened_itself() -> None:
    async def story() -> None:
        local = build_local_api()
        await attacked(local, 3)
        fleet = local.store.fleet()
        opened = list(fleet.incidents.values())
        later = max(each.opened_at for each in opened) + timedelta(minutes=1)
        other = evolve(
            opened[0], id=IncidentId("other"), node=NodeId("other"), nodes=(), opened_at=later
        )
        result = failing("new", facts={"code": "79", "kind": "xid", "gpu": "GPU-new"})
        finding = finding_of(fleet.nodes[NODE], result, later)
        (changed,) = group([*opened, other], [finding])
        assert changed.node == NODE
        assert changed.id in fleet.incidents

    asyncio.run(story())


def test_a_node_keeps_the_worst_and_oldest_conditions() -> None:
    conditions: tuple[Condition, ...] = ()
    for minute in range(10):
        results = [failing(f"check-{minute}-{i}") for i in range(50)]
        if minute == 5:
            results.append(failing("gpu", fatal=True))
        now = NOW + timedelta(minutes=minute)
        conditions = evaluate(conditions, results, now=now, boot_id="b")

    assert len(conditions) == CONDITIONS_PER_NODE.most
    assert conditions[0].check == "gpu"
    assert sum(each.since == NOW for each in conditions) == 50
    assert explain(conditions).endswith(f"and {CONDITIONS_PER_NODE.most - EXPLAINED_MAX} more")


def an_attack(number: int) -> HealthReport:
    results = (
        failing(
            f"xid/{number}-{i}",
            reason="r" * REASON_LENGTH.most,
            lasting=True,
            facts={"code": "79", "kind": "xid", "gpu": f"GPU-{number}-{i}"},
        )
        for i in range(RESULTS_PER_REPORT.most)
    )
    return HealthReport(results=tuple(results), stream="s", number=number)


async def attacked(local: LocalApi, reports: int) -> list[float]:
    """Return the CPU time of each report of an agent that invents checks and GPUs."""
    node = await local.register(NODE)
    times = []
    for number in range(1, reports + 1):
        began = process_time()
        await local.agents.report_health(node, an_attack(number))
        times.append(process_time() - began)
    return times


def test_reports_with_ever_new_checks_leave_a_bounded_record_and_cost_the_same() -> None:
    async def story() -> None:
        local = build_local_api()
        times = await attacked(local, 6)
        fleet = local.store.fleet()
        assert len(fleet.nodes[NODE].conditions) <= CONDITIONS_PER_NODE.most
        assert sum(each.is_open for each in fleet.incidents.values()) <= INCIDENTS_PER_NODE.most
        assert times[-1] < 3 * times[1] + 0.1, times

    asyncio.run(story())


def test_more_hosts_than_allowed_are_refused_and_known_ones_are_not() -> None:
    async def story() -> None:
        local = build_local_api(hosts_max=3)
        for name in ("a", "b", "c", "a"):
            await local.register(name)
        for name in ("d", "e"):
            with pytest.raises(NotPossibleError, match=r"4 is above the limit of 3 hosts"):
                await local.register(name)
        await local.register("b")
        assert sorted(local.store.fleet().nodes) == ["a", "b", "c"]

    asyncio.run(story())
