"""Counters of what is committed: each change counts once, and none ever decreases."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from tests.support.exposition import values_of
from tests.support.local_api import LocalApi, build_local_api
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.metrics import PrometheusMetrics, render_metrics
from navarch.control.runtime.commit_metrics import NAMES_MAX, OTHER, TIMES_MAX, CommitMetrics
from navarch.core.errors import CapacityError
from navarch.core.fleet import Change, Fleet
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import IncidentId, NodeId, PoolName
from navarch.core.incident import Incident, IncidentKind
from navarch.core.job import JobState
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import Table, evolve
from navarch.core.recovery import CommandKind
from navarch.fleet import launching
from navarch.testing.worlds import NOW, a_job, a_node, a_pool

A = NodeId("a")
XIDS = "navarch_xid_errors_total"
COMMANDS = "navarch_commands_issued_total"


def play(story: Callable[[LocalApi, RecordingMetrics], Awaitable[None]]) -> None:
    async def run() -> None:
        local, metrics = build_local_api(), RecordingMetrics()
        local.store.subscribe(CommitMetrics(metrics, local.store.fleet()).on_commit)
        await local.register(A)
        await story(local, metrics)

    asyncio.run(asyncio.wait_for(run(), 20))


def an_xid(code: object, *, second: int = 0, **facts: str) -> CheckResult:
    at = (NOW + timedelta(seconds=second)).isoformat()
    return CheckResult(
        check=f"xid/{code}/GPU-a-0",
        health=Health.DEGRADED,
        lasting=True,
        facts={"code": str(code), "at": at, **facts},
    )


async def report(local: LocalApi, *results: CheckResult) -> None:
    await local.agents.report_health(A, HealthReport(results=results))


def test_a_repeated_report_of_an_xid_counts_once() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        await report(local, an_xid(79))
        await report(local, an_xid(79))
        assert metrics.value(XIDS, code="79") == 1
        await report(local, an_xid(79, second=60), an_xid(48, times="3"))
        assert metrics.value(XIDS, code="79") == 2
        assert metrics.value(XIDS, code="48") == 3

    play(story)


def test_an_agent_cannot_create_series_or_huge_numbers() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        await report(
            local,
            *(an_xid(code) for code in (99_999, "x", "-1", "9" * 40, "٣", "")),
            an_xid(31, times="9" * 9),
            an_xid(13, times="-5"),
            CheckResult(check="made-up", health=Health.DEGRADED, facts={"code": "79"}),
        )
        assert metrics.value(XIDS, code="other") == 6
        assert metrics.value(XIDS, code="31") == TIMES_MAX
        assert metrics.value(XIDS, code="13") == 1
        assert metrics.value(XIDS, code="79") == 0

    play(story)


def test_a_command_counts_when_it_is_issued_and_not_when_it_changes_or_is_forgotten() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        command = await local.fleet.issue(A, CommandKind.CORDON)
        await local.fleet.issue(A, CommandKind.REBOOT)
        await local.agents.acknowledge(A, command.id)
        await local.agents.finish(A, command.id, succeeded=True, result="")
        revision = local.store.fleet().revision
        await local.store.commit(Change(forget_commands=[command.id]), based_on=revision)
        assert metrics.value(COMMANDS, kind="cordon") == 1
        assert metrics.value(COMMANDS, kind="reboot") == 1

    play(story)


LAUNCHES = "navarch_launches_total"
BOOTS = "navarch_boots_total"
OF_THE_POOL = {"pool": "training", "provider": "sim"}


async def commit(local: LocalApi, change: Change | None) -> None:
    assert change is not None
    await local.store.commit(change, based_on=local.store.fleet().revision)


async def put(local: LocalApi, *nodes: Node) -> None:
    await commit(local, Change(nodes=nodes))


def test_each_launch_counts_with_its_outcome() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        await commit(local, Change(pools=[a_pool()]))
        first = a_node("training-1", phase=Phase.REQUESTED)
        second = a_node("training-2", phase=Phase.REQUESTED)
        await put(local, first, second)
        assert first.launch is not None
        assert second.launch is not None
        no = CapacityError("sold out")
        await commit(local, launching.refused(first, first.launch.token, no, now=NOW))
        why = "another launch was refused"
        await commit(local, launching.withdrawn(second, second.launch.token, why, now=NOW))
        third = a_node("training-3", phase=Phase.REQUESTED)
        await put(local, third)
        bought = a_node("training-3", phase=Phase.BOOTING)
        await put(local, bought)
        await put(local, evolve(bought, gpus=8))

        counted = {
            outcome: metrics.value(LAUNCHES, **OF_THE_POOL, outcome=outcome)
            for outcome in ("bought", "capacity", "withdrawn", "unsure", "quota")
        }
        assert counted == {"bought": 1, "capacity": 1, "withdrawn": 1, "unsure": 0, "quota": 0}

    play(story)


def test_a_node_counts_as_registered_once_with_the_time_since_its_request() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        node = a_node("training-1", phase=Phase.BOOTING, created_at=NOW)
        await put(local, node)
        ready = evolve(node, phase=Phase.READY, registered_at=NOW + timedelta(minutes=7))
        await put(local, ready)
        await put(local, evolve(ready, registered_at=NOW + timedelta(hours=7)))

        assert metrics.value(BOOTS, **OF_THE_POOL, outcome="registered") == 1
        assert metrics.observations("navarch_time_to_capacity_seconds", pool="training") == (420,)

    play(story)


def test_a_machine_that_is_given_up_counts_once() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        node = a_node("training-1", phase=Phase.BOOTING)
        await put(local, node)
        given_up = evolve(
            node, phase=Phase.TERMINATING, retiring=Retirement(reason="late", failed_at=NOW)
        )
        await put(local, given_up)
        await put(local, evolve(given_up, phase=Phase.GONE))

        assert metrics.value(BOOTS, **OF_THE_POOL, outcome="given_up") == 1
        assert metrics.value("navarch_terminations_total", pool="training") == 1
        assert metrics.observations("navarch_time_to_capacity_seconds", pool="training") == ()

    play(story)


def test_a_successor_counts_as_a_replacement_once() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        node = a_node("training-2", phase=Phase.REQUESTED, replaces=NodeId("training-1"))
        await put(local, node)
        await put(local, a_node("training-2", phase=Phase.BOOTING, replaces=node.replaces))
        await put(local, a_node("training-3", phase=Phase.REQUESTED))

        assert metrics.value("navarch_replacements_total", pool="training") == 1

    play(story)


def test_an_incident_counts_when_it_is_opened() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        incident = Incident(
            id=IncidentId("i"),
            kind=IncidentKind.HARDWARE,
            node=A,
            opened_at=NOW,
            last_at=NOW,
            title="XID 79",
            check="xid",
        )
        await commit(local, Change(incidents=[incident]))
        await commit(local, Change(incidents=[evolve(incident, closed_at=NOW)]))

        assert metrics.value("navarch_incidents_opened_total", kind="hardware") == 1
        assert metrics.value("navarch_incidents_opened_total", kind="fabric") == 0

    play(story)


def test_each_wait_of_a_job_in_its_queue_is_measured() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        job = a_job("train", since=NOW)
        await commit(local, Change(jobs=[job]))
        at = NOW + timedelta(minutes=5)
        job = job.to(JobState.PLACED, at=at, reason="fits", nodes=(A,))
        await commit(local, Change(jobs=[job]))
        at += timedelta(hours=1)
        job = job.to(JobState.WAITING, at=at, reason="its node is lost")
        await commit(local, Change(jobs=[job]))
        at += timedelta(seconds=30)
        job = job.to(JobState.PLACED, at=at, reason="fits", nodes=(A,))
        await commit(local, Change(jobs=[job]))

        waits = metrics.observations("navarch_job_queue_wait_seconds", queue="default")
        assert waits == (300, 30)
        assert metrics.value("navarch_job_interruptions_total", queue="default") == 1

    play(story)


def test_the_series_of_a_pool_and_of_the_default_queue_begin_at_zero() -> None:
    metrics = PrometheusMetrics()
    CommitMetrics(metrics, Fleet(pools=Table({PoolName("training"): a_pool()})))
    text = b"".join(render_metrics(metrics.collect())).decode()

    assert values_of(text, "navarch_time_to_capacity_seconds_count") == {("training",): 0}
    assert values_of(text, "navarch_job_queue_wait_seconds_count") == {("default",): 0}
    assert values_of(text, BOOTS)["given_up", "training", "sim"] == 0
    assert values_of(text, LAUNCHES)["credential", "training", "sim"] == 0


def test_pools_beyond_the_limit_share_one_series() -> None:
    async def story(local: LocalApi, metrics: RecordingMetrics) -> None:
        await commit(local, Change(pools=[a_pool(f"pool-{i}") for i in range(NAMES_MAX + 5)]))
        for i in range(NAMES_MAX + 5):
            await put(local, a_node(f"n-{i}", f"pool-{i}", phase=Phase.BOOTING))

        assert metrics.value(LAUNCHES, pool="pool-1", provider="sim", outcome="bought") == 1
        assert metrics.value(LAUNCHES, pool=OTHER, provider="sim", outcome="bought") == 5

    play(story)
