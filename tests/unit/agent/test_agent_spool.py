"""The spool: reports survive crashes complete, in order and without duplicates."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from navarch.agent.spool.disk import DiskError, MemoryDisk
from navarch.agent.spool.outbox import ReportBuffer
from navarch.agent.spool.segment_log import LogRecord, SegmentLog, parse_records, record_bytes
from navarch.core.health import CheckResult, Health
from navarch.core.instance import GpuMetrics, NodeMetrics, Sample

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(Exception):  # noqa: N818 - it is not an error, it is the end
    """The process was killed."""


class CrashingDisk(MemoryDisk):
    """A disk that kills its process after a number of written bytes."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self.bytes_to_live: int | None = None

    def append(self, name: str, data: bytes, *, sync: bool) -> None:
        if self.bytes_to_live is None:
            super().append(name, data, sync=sync)
            return
        written = data[: self.bytes_to_live]
        self.bytes_to_live -= len(written)
        super().append(name, written, sync=sync)
        if len(written) < len(data) or self.bytes_to_live == 0:
            raise Killed

    def replace(self, name: str, data: bytes, *, sync: bool) -> None:
        self._spend()
        super().replace(name, data, sync=sync)
        self._spend()

    def remove(self, name: str) -> None:
        self._spend()
        super().remove(name)
        self._spend()

    def _spend(self) -> None:
        if self.bytes_to_live is not None:
            self.bytes_to_live -= 1
            if self.bytes_to_live <= 0:
                raise Killed


class KilledAnywhere(RuleBasedStateMachine):
    """Appends and deliveries by a process that is killed at any byte and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashingDisk()
        self.log = SegmentLog(self.disk, "health", segment_bytes=100)
        self.kept: deque[tuple[int, bytes]] = deque()
        self.maybe: tuple[int, bytes] | None = None
        self.seen: set[int] = set()
        self.delivered = 0

    @rule(payload=st.binary(max_size=60), bytes_to_live=st.none() | st.integers(1, 120))
    def append(self, payload: bytes, bytes_to_live: int | None) -> None:
        number = self.log.next_number
        self.disk.bytes_to_live = bytes_to_live
        try:
            record = self.log.append(payload, at=NOW, sync=True)
        except Killed:
            self.maybe = (number, payload)
            self.restart()
            return
        self.disk.bytes_to_live = None
        assert record.number == number
        self.kept.append((number, payload))

    @rule(count=st.integers(1, 5), bytes_to_live=st.none() | st.integers(1, 6))
    def deliver(self, count: int, bytes_to_live: int | None) -> None:
        records = self.log.waiting(count)
        if not records:
            return
        self.seen.update(record.number for record in records)
        self.disk.bytes_to_live = bytes_to_live
        try:
            self.log.deliver(records[-1].number)
        except Killed:
            self.restart()
            # Everything before the cut may be gone, nothing after it.
            oldest = self.log.oldest()
            first = oldest.number if oldest is not None else self.log.next_number
            assert first <= records[-1].number + 1
            while self.kept and self.kept[0][0] < first:
                self.kept.popleft()
            return
        self.disk.bytes_to_live = None
        for _ in records:
            self.kept.popleft()

    @rule()
    def restart(self) -> None:
        self.disk = CrashingDisk(self.disk.files)
        self.log = SegmentLog(self.disk, "health", segment_bytes=100)
        if self.maybe is not None:
            number, payload = self.maybe
            self.maybe = None
            if self.log.next_number == number + 1:
                self.kept.append((number, payload))
            else:
                assert self.log.next_number == number

    @invariant()
    def numbers_are_never_reused(self) -> None:
        assert self.log.next_number > max(self.seen, default=0)

    @invariant()
    def undelivered_records_are_a_subsequence_of_appended_ones(self) -> None:
        waiting = [(r.number, r.payload) for r in self.log.waiting(1000)]
        assert waiting == list(self.kept)[: len(waiting)]
        assert bool(waiting) == bool(self.kept)


KilledAnywhere.TestCase.settings = settings(max_examples=150)
test_a_log_survives_being_killed_at_any_byte = KilledAnywhere.TestCase


@given(st.lists(st.binary(max_size=40), max_size=10), st.data())
def test_a_file_cut_anywhere_yields_exactly_its_complete_records(
    payloads: list[bytes], data: st.DataObject
) -> None:
    records = [LogRecord(number=i + 1, at=NOW, payload=p) for i, p in enumerate(payloads)]
    whole = [record_bytes(record) for record in records]
    cut = data.draw(st.integers(0, sum(map(len, whole))))

    parsed, end = parse_records(b"".join(whole)[:cut])

    assert parsed == records[: len(parsed)]
    assert end == sum(map(len, whole[: len(parsed)]))
    assert end <= cut
    assert len(parsed) == len(records) or end + len(whole[len(parsed)]) > cut


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6), st.data())
def test_a_flipped_bit_is_detected(payloads: list[bytes], data: st.DataObject) -> None:
    records = [LogRecord(number=i + 1, at=NOW, payload=p) for i, p in enumerate(payloads)]
    raw = bytearray(b"".join(record_bytes(record) for record in records))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    parsed, _ = parse_records(bytes(raw))

    assert len(parsed) < len(records)
    assert parsed == records[: len(parsed)]


@given(st.binary(max_size=300))
def test_a_log_with_any_contents_can_be_opened_and_appended_to(noise: bytes) -> None:
    disk = MemoryDisk(
        {
            "health-00000000000000000007.log": noise,
            "health.delivered": noise[:9],
            "health-x.log": noise,
            "stream": b"s",
        }
    )
    log = SegmentLog(disk, "health")
    record = log.append(b"new", at=NOW, sync=True)

    assert SegmentLog(disk, "health").waiting(100)[-1] == record


def test_a_torn_first_record_of_a_new_segment_does_not_hide_the_segments_before_it() -> None:
    disk = CrashingDisk()
    log = SegmentLog(disk, "health", segment_bytes=100)
    while len(disk.files) < 2:
        log.append(b"x" * 40, at=NOW, sync=True)
    while disk.sizes()[max(disk.files)] < 100:
        log.append(b"x" * 40, at=NOW, sync=True)
    disk.bytes_to_live = 1
    with pytest.raises(Killed):
        log.append(b"torn", at=NOW, sync=True)
    disk.bytes_to_live = None

    again = SegmentLog(disk, "health", segment_bytes=100)
    numbers = []
    while record := again.oldest():
        numbers.append(record.number)
        again.deliver(record.number)
    assert numbers == list(range(1, log.next_number))


def test_a_write_that_fails_half_way_does_not_corrupt_later_records() -> None:
    class Filling(MemoryDisk):
        room = 10_000

        def append(self, name: str, data: bytes, *, sync: bool) -> None:
            super().append(name, data[: self.room], sync=sync)
            if len(data) > self.room:
                raise DiskError("no space left on device")

    disk = Filling()
    log = SegmentLog(disk, "health")
    log.append(b"one", at=NOW, sync=True)
    disk.room = 10
    with pytest.raises(DiskError):
        log.append(b"two", at=NOW, sync=True)
    disk.room = 10_000
    log.append(b"three", at=NOW, sync=True)

    again = SegmentLog(disk, "health").waiting(9)
    assert [(r.number, r.payload) for r in again] == [(1, b"one"), (2, b"three")]


def results(text: str) -> Sequence[CheckResult]:
    return [CheckResult(check="gpu", health=Health.DEGRADED, reason=text)]


@dataclass
class SmallBuffer:
    """A buffer limited to a few kilobytes."""

    disk: MemoryDisk

    def open(self) -> ReportBuffer:
        return ReportBuffer(self.disk, new_stream="s1", bytes_max=8_000, segment_bytes=500)


def a_sample(at: datetime) -> Sample:
    return Sample(at=at, metrics=NodeMetrics(gpus=(GpuMetrics(temperature_c=1.0),) * 2))


def test_metrics_are_dropped_before_any_health_report() -> None:
    buffer = SmallBuffer(MemoryDisk()).open()
    for number in range(30):
        buffer.add_sample(a_sample(NOW))
        buffer.add_report(results(f"report {number}"), at=NOW)
    assert buffer.oldest_samples(NOW, 1)[0][0] > 1, "some metrics had to go"
    while not buffer.lost_reports:
        buffer.add_report(results("more"), at=NOW)

    assert buffer.oldest_samples(NOW, 100) == []
    assert buffer.size <= 8_000


def test_when_only_health_reports_are_left_the_oldest_are_dropped() -> None:
    buffer = SmallBuffer(MemoryDisk()).open()
    for _ in range(500):
        buffer.add_report(results("again"), at=NOW)

    oldest = buffer.oldest_report(NOW)
    assert oldest is not None
    assert buffer.lost_reports
    assert buffer.size <= 8_000
    numbers = []
    while report := buffer.oldest_report(NOW):
        numbers.append(report.number)
        buffer.reports.deliver(report.number)
    assert numbers == list(range(oldest.number, 501))
    assert len(numbers) > 30, "no more is dropped than must be"


def test_reports_older_than_a_day_are_dropped() -> None:
    buffer = SmallBuffer(MemoryDisk()).open()
    buffer.add_report(results("old"), at=NOW)
    buffer.add_sample(a_sample(NOW))
    later = NOW + timedelta(hours=24, seconds=1)
    buffer.add_report(results("new"), at=later)

    report = buffer.oldest_report(later)
    assert report is not None
    assert (report.number, report.results[0].reason) == (2, "new")
    assert buffer.oldest_samples(later, 9) == []
    assert buffer.lost_reports


def test_stream_and_numbers_continue_after_a_restart_with_nothing_left() -> None:
    small = SmallBuffer(MemoryDisk())
    buffer = small.open()
    for _ in range(40):
        buffer.reports.deliver(buffer.add_report(results("x"), at=NOW).number)
    again = ReportBuffer(small.disk, new_stream="s2", bytes_max=8_000, segment_bytes=500)

    report = again.add_report(results("y"), at=NOW)
    assert (report.stream, report.number) == ("s1", 41)
    assert again.oldest_report(NOW) == report


def test_numbers_continue_even_if_the_delivered_file_is_lost() -> None:
    small = SmallBuffer(MemoryDisk())
    buffer = small.open()
    for _ in range(40):
        buffer.reports.deliver(buffer.add_report(results("x"), at=NOW).number)
    del small.disk.files["health.delivered"]

    assert small.open().add_report(results("y"), at=NOW).number == 41


def test_a_report_from_another_version_of_the_agent_is_skipped() -> None:
    small = SmallBuffer(MemoryDisk())
    SegmentLog(small.disk, "health").append(b'{"what": "is this"}', at=NOW, sync=True)
    buffer = small.open()
    buffer.add_report(results("ours"), at=NOW)

    report = buffer.oldest_report(NOW)
    assert report is not None
    assert report.results[0].reason == "ours"


def test_delivered_reports_free_their_space() -> None:
    small = SmallBuffer(MemoryDisk())
    buffer = small.open()
    for _ in range(1000):
        buffer.reports.deliver(buffer.add_report(results("x"), at=NOW).number)

    assert sum(small.disk.sizes().values()) < 1500
