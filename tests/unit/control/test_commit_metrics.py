"""Counters of commands and XIDs: what is committed counts once, and they never decrease."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from tests.support.local_api import LocalApi, build_local_api
from tests.support.recording_metrics import RecordingMetrics

from navarch.control.runtime.commit_metrics import TIMES_MAX, CommitMetrics
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind
from navarch.testing.worlds import NOW

A = NodeId("a")
XIDS = "navarch_xid_errors_total"
COMMANDS = "navarch_commands_issued_total"


def play(story: Callable[[LocalApi, RecordingMetrics], Awaitable[None]]) -> None:
    async def run() -> None:
        local, metrics = build_local_api(), RecordingMetrics()
        local.store.subscribe(CommitMetrics(metrics).on_commit)
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
