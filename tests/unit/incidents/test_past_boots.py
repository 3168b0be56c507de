"""Findings of an earlier boot that are reported after a reboot."""

from datetime import datetime, timedelta

import msgspec
import pytest

from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.spool.outbox import ReportBuffer
from navarch.agent.spool.segment_log import SegmentLog
from navarch.core.health import BOOT, CheckResult, Health, HealthReport
from navarch.core.node import Node
from navarch.fleet.disruption.unhealthy import CordonAndReplace, Ladder, grave_conditions
from navarch.fleet.verdicts import with_past_results, with_results
from navarch.health.evaluate import is_of_past_boot
from navarch.testing.worlds import NOW, a_node, a_pool

FATAL = CheckResult(
    check="xid/79/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 79",
    fatal=True,
    lasting=True,
    action="reboot_node",
)
GAUGE = CheckResult(check="temperature", health=Health.UNHEALTHY, reason="hot", fatal=True)
BOOTED = CheckResult(check=BOOT, health=Health.HEALTHY)


def a_booted_node(**facts: object) -> Node:
    known = {"boot_id": "new", "booted_at": NOW, "registered_at": NOW, **facts}
    return a_node("training-0", **known)  # type: ignore[arg-type]


def later(seconds: float = 1.0) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_finding_of_an_earlier_boot_triggers_no_remedy() -> None:
    node, _ = with_past_results(a_booted_node(), [FATAL], boot_id="old", now=later())

    assert node.health is Health.UNHEALTHY, "no work until the boot check has passed"
    assert grave_conditions(a_pool(), node) == []
    for remediator in (CordonAndReplace(), Ladder()):
        assert remediator.remediate(a_pool(), node) is None
    well, _ = with_results(node, [BOOTED], now=later(2))
    assert well.health is Health.HEALTHY


def test_a_finding_of_an_earlier_boot_adds_no_condition_once_the_boot_check_passed() -> None:
    node = a_booted_node(vouched_boot="new")

    after, events = with_past_results(node, [FATAL, GAUGE], boot_id="old", now=later())

    assert (after, events) == (node, [])


def test_states_of_an_earlier_boot_are_dropped() -> None:
    node = a_booted_node()

    assert with_past_results(node, [GAUGE, BOOTED], boot_id="old", now=later())[0] == node


def test_a_finding_of_an_earlier_boot_does_not_replace_a_current_one() -> None:
    node, _ = with_results(a_booted_node(), [FATAL], now=later())

    after, _ = with_past_results(node, [FATAL], boot_id="old", now=later(2))

    assert [c.boot_id for c in after.conditions] == ["new"]
    assert len(grave_conditions(a_pool(), after)) == 1


@pytest.mark.parametrize(
    ("named", "known", "past"),
    [("old", "new", True), ("new", "new", False), ("", "new", False), ("old", "", False)],
)
def test_only_a_report_with_another_boot_id_is_of_the_past(
    named: str, known: str, past: bool
) -> None:
    report = HealthReport(results=(FATAL,), boot_id=named)

    assert is_of_past_boot(a_booted_node(boot_id=known), report) is past


def test_a_report_queued_across_a_reboot_keeps_its_boot_id() -> None:
    disk = MemoryDisk()
    ReportBuffer(disk, new_stream="s", boot_id="old").add_report([FATAL], at=NOW)

    report = ReportBuffer(disk, new_stream="s", boot_id="new").oldest_report(NOW)

    assert report is not None
    assert (report.boot_id, report.results) == ("old", (FATAL,))


def test_a_report_queued_by_an_older_agent_is_delivered() -> None:
    disk = MemoryDisk()
    SegmentLog(disk, "health").append(msgspec.json.encode((FATAL,)), at=NOW, sync=True)

    report = ReportBuffer(disk, new_stream="s", boot_id="new").oldest_report(NOW)

    assert report is not None
    assert (report.boot_id, report.results) == ("", (FATAL,))
