"""Notices of cloud metadata services, served on the loopback interface."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.metadata_service import MetadataService, metadata_service

from navarch.core.health import CheckResult, Health
from navarch.core.instance import Notice, NoticeKind
from navarch.health.checks.issues import judge_notices
from navarch.hosts.metadata.aws import AwsMetadata
from navarch.hosts.metadata.gcp import GcpKey, gcp_sources, maintenance_event, preempted
from navarch.hosts.metadata.watch import Service, SourceWatch, detect, watch_service
from navarch.ports.host import MetadataError

ACTION = "spot/instance-action"
REBALANCE = "events/recommendations/rebalance"
SCHEDULED = "events/maintenance/scheduled"
SOON = 5.0


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with metadata_service() as running:
        yield running


def kinds(notices: object) -> list[NoticeKind]:
    assert isinstance(notices, list | tuple)
    return [notice.kind for notice in notices]


def test_not_found_means_no_notice_on_ec2(service: MetadataService) -> None:
    assert AwsMetadata(service.url).look() == ()
    assert len(service.asked) == 3


def test_a_spot_interruption_is_a_notice_with_its_action_and_time(service: MetadataService) -> None:
    service.say(ACTION, {"action": "terminate", "time": "2026-09-18T08:22:00Z"})

    assert AwsMetadata(service.url).look() == (
        Notice(kind=NoticeKind.RECLAIM, reason="terminate at 2026-09-18T08:22:00Z"),
    )


def test_a_rebalance_recommendation_is_a_maintenance_notice(service: MetadataService) -> None:
    service.say(REBALANCE, {"noticeTime": "2026-10-26T15:55:36Z"})

    assert kinds(AwsMetadata(service.url).look()) == [NoticeKind.MAINTENANCE]


def test_scheduled_events_count_until_they_are_over(service: MetadataService) -> None:
    event = {"Code": "system-reboot", "NotBefore": "21 Jan 2026 09:00:43 GMT", "State": "active"}
    service.say(SCHEDULED, [event, {**event, "State": "completed"}, {**event, "State": "canceled"}])

    (notice,) = AwsMetadata(service.url).look()

    assert notice.reason == "system-reboot from 21 Jan 2026 09:00:43 GMT"
    service.say(SCHEDULED, [])
    assert AwsMetadata(service.url).look() == ()


def test_an_expired_session_token_is_renewed(service: MetadataService) -> None:
    metadata = AwsMetadata(service.url)
    metadata.look()
    service.tokens.clear()
    service.say(ACTION, {"action": "stop", "time": "soon"})

    assert kinds(metadata.look()) == [NoticeKind.RECLAIM]


@pytest.mark.parametrize("body", ['{"action": ""}', "null", '["x"]', "  "])
def test_a_response_without_an_action_is_no_notice(service: MetadataService, body: str) -> None:
    service.say(ACTION, body)
    assert AwsMetadata(service.url).look() == ()


@pytest.mark.parametrize("body", ["<html>", "[1, 2"])
def test_an_invalid_response_is_an_error(service: MetadataService, body: str) -> None:
    service.say(ACTION, body)
    with pytest.raises(MetadataError, match="not JSON"):
        AwsMetadata(service.url).look()


@pytest.mark.parametrize("status", [403, 500, 503])
def test_an_error_status_is_not_the_absence_of_notices(
    service: MetadataService, status: int
) -> None:
    service.say(ACTION, {"action": "terminate"})
    service.status = status
    with pytest.raises(MetadataError, match=str(status)):
        AwsMetadata(service.url).look()


def test_the_proxy_of_the_environment_is_not_used(
    service: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert AwsMetadata(service.url).look() == ()


def test_a_refused_connection_is_an_error() -> None:
    with pytest.raises(MetadataError):
        AwsMetadata("http://127.0.0.1:1").look()


@pytest.mark.parametrize(
    ("preempted_value", "event", "expected"),
    [
        ("FALSE", "NONE", []),
        ("TRUE", "NONE", [NoticeKind.RECLAIM]),
        ("FALSE", "TERMINATE_ON_HOST_MAINTENANCE", [NoticeKind.MAINTENANCE]),
        ("FALSE", "MIGRATE_ON_HOST_MAINTENANCE", []),
    ],
)
def test_values_of_compute_engine_become_notices(
    service: MetadataService, preempted_value: str, event: str, expected: list[NoticeKind]
) -> None:
    service.say("preempted", preempted_value)
    service.say("maintenance-event", event)

    found = [notice for source in gcp_sources(service.url) for notice in source.look()]

    assert kinds(found) == expected


def test_a_long_poll_returns_a_change_at_compute_engine(
    service: MetadataService,
) -> None:
    service.say("preempted", "FALSE")
    key = GcpKey("preempted", preempted, service.url)
    assert key.look() == ()
    received: list[object] = []
    waiter = threading.Thread(target=lambda: received.append(key.look()))
    waiter.start()
    while len(service.asked) < 2:
        pass
    assert "wait_for_change=true" in service.asked[1]
    service.say("preempted", "TRUE")
    waiter.join(SOON)

    assert kinds(received[0]) == [NoticeKind.RECLAIM]


def test_a_long_poll_without_change_returns_the_current_value(service: MetadataService) -> None:
    service.say("maintenance-event", "NONE")
    key = GcpKey("maintenance-event", maintenance_event, service.url, wait_s=1)
    assert (key.look(), key.look()) == ((), ())


def test_another_server_at_the_address_is_an_error(service: MetadataService) -> None:
    service.status = 302
    service.say("preempted", "TRUE")
    with pytest.raises(MetadataError):
        GcpKey("preempted", preempted, service.url).look()


def test_the_watch_reports_a_notice_and_its_end(service: MetadataService) -> None:
    changed = threading.Semaphore(0)
    source = AwsMetadata(service.url)
    source.pause_s = 0.01
    watched = SourceWatch([source])
    assert watched.notices() is None
    watched.start(changed.release)
    try:
        assert changed.acquire(timeout=SOON)
        assert watched.notices() == []
        service.say(ACTION, {"action": "terminate", "time": "soon"})
        assert changed.acquire(timeout=SOON)
        assert kinds(watched.notices()) == [NoticeKind.RECLAIM]
        service.withdraw(ACTION)
        assert changed.acquire(timeout=SOON)
        assert watched.notices() == []
    finally:
        watched.stop()


def test_a_hung_service_does_not_block_the_watch(service: MetadataService) -> None:
    service.hangs = True
    watched = SourceWatch([AwsMetadata(service.url, within_s=30.0)])
    watched.start(lambda: None)
    while not service.asked:
        pass
    assert watched.notices() is None
    watched.stop()


def test_a_service_that_recovers_is_read_again(service: MetadataService) -> None:
    service.hangs = True
    changed = threading.Event()
    watched = SourceWatch([AwsMetadata(service.url, within_s=0.1)], retry_s=(0.01, 0.02))
    watched.start(changed.set)
    try:
        while len(service.asked) < 3:
            pass
        assert watched.notices() is None
        service.hangs = False
        assert changed.wait(SOON)
        assert watched.notices() == []
    finally:
        watched.stop()


@pytest.mark.parametrize(
    ("vendor", "service"),
    [("Amazon EC2", Service.AWS), ("Google", Service.GCP), ("QEMU", Service.NONE)],
)
def test_the_service_is_detected_from_the_firmware(
    tmp_path: Path, vendor: str, service: Service
) -> None:
    (tmp_path / "sys_vendor").write_text(f"{vendor}\n")
    assert detect(tmp_path) is service
    assert (watch_service(Service.AUTO, dmi=tmp_path) is None) is (service is Service.NONE)


def test_without_a_service_there_is_no_watch(tmp_path: Path) -> None:
    assert watch_service(Service.AUTO, dmi=tmp_path / "nothing") is None
    assert watch_service(Service.NONE) is None


def test_a_notice_makes_a_machine_degraded_and_never_unhealthy() -> None:
    reclaim = Notice(kind=NoticeKind.RECLAIM, reason="terminate at noon")

    assert judge_notices([reclaim]) == (
        CheckResult(check="spot_notice", health=Health.DEGRADED, reason="terminate at noon"),
        CheckResult(check="maintenance", health=Health.HEALTHY),
    )
