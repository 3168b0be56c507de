"""A queue on disk: records are appended at one end and deleted at the other once delivered.

The queue is a series of segments: files of about a megabyte, named after the number of their first
record. Old segments are deleted whole, so nothing is rewritten, and only the oldest segment is in
memory.

A record is its length, a checksum, its number, its time and its bytes. A process that is killed
during a write leaves a torn tail, which the checksum detects; opening the log cuts it off.
"""

import struct
import zlib
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from navarch.agent.spool.disk import Disk, DiskError

SEGMENT_BYTES = 1024 * 1024
RECORD_BYTES_MAX = 16 * 1024 * 1024

_HEAD = struct.Struct("<II")
_META = struct.Struct("<Qq")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record of the queue."""

    number: int
    at: datetime
    payload: bytes


@dataclass(slots=True)
class _Segment:
    name: str
    first: int
    size: int
    on_disk: bool


class SegmentLog:
    """The queue `name` on `disk`. Numbers start at one and are never reused."""

    def __init__(self, disk: Disk, name: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._disk = disk
        self._name = name
        self._delivered_file = f"{name}.delivered"
        self._segment_bytes = segment_bytes
        self._segments: deque[_Segment] = deque()
        self._front: deque[LogRecord] = deque()
        self._torn = False
        for file, size in sorted(disk.sizes().items()):
            kind, _, first = file.removesuffix(".log").rpartition("-")
            if kind == name and file.endswith(".log") and first.isdecimal():
                self._segments.append(_Segment(file, int(first), size, on_disk=True))
        delivered = disk.read(self._delivered_file) or b""
        self._delivered = int(delivered) if delivered.isdigit() else 0
        self.next_number = self._delivered + 1
        """The number of the next record."""
        if self._segments:
            self.next_number = max(self.next_number, self._repair(self._segments[-1]))
        self._load_front()
        self._advance()

    @property
    def size(self) -> int:
        """The size on disk in bytes."""
        return sum(segment.size for segment in self._segments)

    def append(self, payload: bytes, *, at: datetime, sync: bool) -> LogRecord:
        """Append a record; its time is stored in milliseconds."""
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)
        record = LogRecord(number=self.next_number, at=at, payload=payload)
        data = record_bytes(record)
        if self._torn:
            # An earlier write failed half way, for example because the disk was full.
            self._repair(self._segments[-1])
        if not self._segments or self._segments[-1].size >= self._segment_bytes:
            self._segments.append(self._new_segment())
        segment = self._segments[-1]
        try:
            self._disk.append(segment.name, data, sync=sync)
        except DiskError:
            self._torn = True
            raise
        segment.size += len(data)
        segment.on_disk = True
        self.next_number += 1
        if len(self._segments) == 1:
            self._front.append(record)
        self._advance()
        return record

    def oldest(self) -> LogRecord | None:
        """Return the oldest undelivered record."""
        return self._front[0] if self._front else None

    def waiting(self, limit: int) -> list[LogRecord]:
        """Return up to `limit` of the oldest records, from the oldest segment only."""
        return [self._front[i] for i in range(min(limit, len(self._front)))]

    def deliver(self, number: int) -> None:
        """Mark records up to `number` as delivered."""
        self._delivered = max(self._delivered, min(number, self.next_number - 1))
        while self._front and self._front[0].number <= self._delivered:
            self._front.popleft()
        # Not synced: after a power cut some records are sent again, and the receiver drops them by
        # their numbers.
        self._disk.replace(self._delivered_file, str(self._delivered).encode(), sync=False)
        self._advance()

    def drop_segment(self) -> bool:
        """Delete the oldest segment; return whether undelivered records were lost."""
        if not self._segments:
            return False
        lost = bool(self._front)
        if len(self._segments) == 1:
            # Create the successor first: a crash between the two would lose the next number.
            self._segments.append(self._new_segment())
            self._disk.replace(self._segments[-1].name, b"", sync=True)
            self._segments[-1].on_disk = True
        self._disk.remove(self._segments[0].name)
        self._segments.popleft()
        self._load_front()
        self._advance()
        return lost

    def drop_before(self, moment: datetime) -> bool:
        """Drop undelivered records older than `moment`; return whether there were any."""
        lost = False
        while self._front and self._front[0].at < moment:
            lost = True
            self.deliver(max(record.number for record in self._front if record.at < moment))
        return lost

    def _repair(self, segment: _Segment) -> int:
        """Cut off a torn tail; return the number after the last record."""
        data = self._disk.read(segment.name) or b""
        records, good = parse_records(data)
        if good < len(data):
            self._disk.replace(segment.name, data[:good], sync=True)
        segment.size = good
        self._torn = False
        return records[-1].number + 1 if records else segment.first

    def _new_segment(self) -> _Segment:
        name = f"{self._name}-{self.next_number:020d}.log"
        return _Segment(name, self.next_number, 0, on_disk=False)

    def _advance(self) -> None:
        """Delete delivered segments, except the newest.

        The newest stays because its name and records determine the next number.
        """
        while not self._front and len(self._segments) > 1:
            if len(self._segments) == 2 and not self._segments[-1].on_disk:
                return  # Until the newest exists on disk, this one determines the next number.
            self._disk.remove(self._segments[0].name)
            self._segments.popleft()
            self._load_front()

    def _load_front(self) -> None:
        self._front.clear()
        if self._segments:
            records, _ = parse_records(self._disk.read(self._segments[0].name) or b"")
            self._front.extend(r for r in records if r.number > self._delivered)


def record_bytes(record: LogRecord) -> bytes:
    """Return the encoding of a record."""
    meta = _META.pack(record.number, round((record.at - _EPOCH) / timedelta(milliseconds=1)))
    body = meta + record.payload
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def parse_records(data: bytes) -> tuple[list[LogRecord], int]:
    """Return the complete records at the start of `data`, and the offset of their end."""
    records: list[LogRecord] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + length]
        sane = _META.size <= length <= RECORD_BYTES_MAX and len(body) == length
        if not sane or zlib.crc32(body) != checksum:
            break
        number, unix_ms = _META.unpack_from(body)
        moment = _EPOCH + timedelta(milliseconds=unix_ms)
        records.append(LogRecord(number=number, at=moment, payload=body[_META.size :]))
        at += _HEAD.size + length
    return records, at
