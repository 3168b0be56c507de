"""The kernel log as read from its device."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from navarch.health.xid.line import parse_record
from navarch.hosts.kmsg import RECORDS_AT_ONCE, FileBookmark, Kmsg, Tracepoint, open_tracepoint
from navarch.ports.host import HostError

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 1000.0

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Device:
    """A device that keeps record boundaries and never blocks, like the real one."""

    def __init__(self) -> None:
        # Larger than a record, and the same in both directions.
        self.theirs, self.ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.setblocking(False)

    def write(self, *records: str) -> None:
        for record in records:
            self.theirs.send(record.encode())

    def log(self) -> Kmsg:
        return Kmsg(Clock(), file=self.ours.detach())


def test_a_record_has_its_time_and_origin() -> None:
    record = parse_record(
        b"4,358,900000000,c;NVRM: Xid (PCI:0000:00:06): 31\n SUBSYSTEM=pci\n DEVICE=+pci:0000\n",
        now=NOW,
        uptime_s=1000.0,
    )

    assert record is not None
    assert (record.sequence, record.from_kernel) == (358, True)
    assert record.at == NOW - timedelta(seconds=100)
    assert record.text == "NVRM: Xid (PCI:0000:00:06): 31"
    assert record.raw == "4,358,900000000,c;NVRM: Xid (PCI:0000:00:06): 31"


def test_records_from_user_space_are_marked() -> None:
    record = parse_record(b"12,5,6,-;NVRM: Xid (PCI:0000:00:06): 79, gone", now=NOW, uptime_s=None)

    assert record is not None
    assert not record.from_kernel


@pytest.mark.parametrize("noise", [b"", b"hello", b"a,b,c;x", b"1,2;x", b";", b"\xff,1,2;x"])
def test_invalid_records_are_skipped(noise: bytes) -> None:
    assert parse_record(noise, now=NOW, uptime_s=None) is None


def test_the_log_is_read_without_blocking_and_continues() -> None:
    device = Device()
    device.write("4,1,900000000,-;one", "4,2,950000000,-;two")
    log = device.log()

    kept = log.read()
    assert [(r.sequence, r.at) for r in kept] == [
        (1, NOW - timedelta(seconds=100)),
        (2, NOW - timedelta(seconds=50)),
    ]
    assert log.read() == []
    device.write("4,3,1,-;three")
    (new,) = log.read()
    assert (new.text, new.at) == ("three", NOW), "what comes while we follow has just happened"
    log.close()
    device.theirs.close()


def test_a_flood_is_read_in_batches() -> None:
    device = Device()
    log = device.log()
    written = 0
    device.theirs.setblocking(False)
    try:
        while True:
            device.write(f"4,{written},0,-;x")
            written += 1
    except BlockingIOError:
        pass
    seen = 0
    while records := log.read():
        assert len(records) <= RECORDS_AT_ONCE
        seen += len(records)
    assert seen == written
    log.close()
    device.theirs.close()


def test_a_missing_device_is_a_host_error(tmp_path: Path) -> None:
    with pytest.raises(HostError):
        Kmsg(Clock(), tmp_path / "kmsg")


def test_a_bookmark_is_valid_for_one_boot(tmp_path: Path) -> None:
    path = tmp_path / "kernel-log" / "bookmark.json"
    FileBookmark(path).save("boot-1", 17)

    assert FileBookmark(path).load("boot-1") == 17
    assert FileBookmark(path).load("boot-2") == -1
    path.write_text("{")
    assert FileBookmark(path).load("boot-1") == -1


def test_a_bookmark_that_cannot_be_written_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "kernel-log").write_text("in the way")
    with pytest.raises(HostError):
        FileBookmark(tmp_path / "kernel-log" / "bookmark.json").save("boot-1", 17)


def test_the_trace_is_returned_in_whole_lines() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    trace = Tracepoint(Clock(), read)

    assert trace.read() == []
    os.write(write, b"a-1 [0] 1: nvidia_dev_xid: Xid (PCI:0000:01:00.0): 79, gone\nb-2 [0")
    assert [record.text[-4:] for record in trace.read()] == ["gone"]
    os.write(write, b"] end\n")
    assert [record.text for record in trace.read()] == ["b-2 [0] end"]
    trace.close()
    os.close(write)


def test_tracing_uses_its_own_instance(tmp_path: Path) -> None:
    assert open_tracepoint(Clock(), tmp_path) is None
    for place in (tmp_path, tmp_path / "instances" / "navarch"):
        event = place / "events" / "nvidia" / "nvidia_dev_xid"
        event.mkdir(parents=True)
        (event / "enable").write_text("0")
    os.mkfifo(tmp_path / "instances" / "navarch" / "trace_pipe")

    trace = open_tracepoint(Clock(), tmp_path)

    assert trace is not None
    assert (tmp_path / "events/nvidia/nvidia_dev_xid/enable").read_text() == "0"
    assert (tmp_path / "instances/navarch/events/nvidia/nvidia_dev_xid/enable").read_text() == "1"
    assert trace.fileno() >= 0
    trace.close()
