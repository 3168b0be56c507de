"""Health reports, metrics and evidence that wait for delivery, stored on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from navarch.agent.spool.disk import Disk
from navarch.agent.spool.segment_log import SEGMENT_BYTES, LogRecord, SegmentLog
from navarch.core.health import CheckResult, HealthReport
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample

BYTES_MAX = 64 * 1024 * 1024
AGE_MAX = timedelta(hours=24)
"""Older reports are dropped. Lasting findings are stored separately (`findings`) and reported
again, so that no broken GPU is forgotten."""

STREAM = "stream"
EVIDENCE_PREFIX = "evidence-"
EVIDENCE_MAX = 8
"""Only the latest are kept; each may be most of a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredReport:
    """A report as stored on disk. Earlier agents stored the bare results."""

    boot_id: str
    results: tuple[CheckResult, ...]


class ReportBuffer:
    """Health reports and metrics, each in order, within one size limit.

    A health report is synced to disk before its number is used. Otherwise a power cut could lose
    it, the next report would reuse its number, and the control plane would drop that report as a
    duplicate. Metrics are not synced.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        new_stream: str,
        boot_id: str = "",
        bytes_max: int = BYTES_MAX,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        assert segment_bytes * 4 <= bytes_max, f"{segment_bytes=} is too coarse for {bytes_max=}"
        self._boot_id = boot_id
        self._bytes_max = bytes_max
        self.reports = SegmentLog(disk, "health", segment_bytes=segment_bytes)
        self.samples = SegmentLog(disk, "metrics", segment_bytes=segment_bytes)
        self._results = msgspec.json.Decoder(_StoredReport | tuple[CheckResult, ...])
        self._metrics = msgspec.json.Decoder(NodeMetrics)
        self.lost_reports = False
        """Whether reports were dropped because of size or age. `Spool` resets it after adding the
        lasting findings to the next report."""
        stream = disk.read(STREAM)
        if not stream:
            stream = new_stream.encode()
            disk.replace(STREAM, stream, sync=True)
        self.stream = stream.decode(errors="replace")

    @property
    def size(self) -> int:
        """The stored size in bytes."""
        return self.reports.size + self.samples.size

    def add_report(self, results: Sequence[CheckResult], *, at: datetime) -> HealthReport:
        """Store the results of a round of checks until they are delivered."""
        payload = msgspec.json.encode(_StoredReport(boot_id=self._boot_id, results=tuple(results)))
        report = self._report(self.reports.append(payload, at=at, sync=True))
        self._trim(at)
        return report

    def add_sample(self, sample: Sample) -> None:
        """Store metrics until they are delivered or health reports need the space."""
        payload = msgspec.json.encode(sample.metrics)
        self.samples.append(payload, at=sample.at, sync=False)
        self._trim(sample.at)

    def oldest_report(self, now: datetime) -> HealthReport | None:
        """Return the health report to deliver next."""
        self._expire(now)
        while (record := self.reports.oldest()) is not None:
            try:
                return self._report(record)
            except msgspec.DecodeError:
                # Written by an incompatible version of the agent.
                self.reports.deliver(record.number)
                self.lost_reports = True
        return None

    def oldest_samples(self, now: datetime, limit: int) -> list[tuple[int, Sample]]:
        """Return the metrics to deliver next, with their numbers."""
        self._expire(now)
        try:
            return [
                (record.number, Sample(at=record.at, metrics=self._metrics.decode(record.payload)))
                for record in self.samples.waiting(limit)
            ]
        except msgspec.DecodeError:
            self.samples.drop_segment()
            return []

    def _report(self, record: LogRecord) -> HealthReport:
        stored = self._results.decode(record.payload)
        is_named = isinstance(stored, _StoredReport)
        return HealthReport(
            results=stored.results if is_named else stored,
            stream=self.stream,
            number=record.number,
            at=record.at,
            boot_id=stored.boot_id if is_named else "",
        )

    def _expire(self, now: datetime) -> None:
        self.samples.drop_before(now - AGE_MAX)
        if self.reports.drop_before(now - AGE_MAX):
            self.lost_reports = True

    def _trim(self, now: datetime) -> None:
        self._expire(now)
        while self.size > self._bytes_max:
            if self.samples.size > 0:
                self.samples.drop_segment()
            elif self.reports.drop_segment():
                self.lost_reports = True


class EvidenceQueue:
    """Evidence bundles, stored across restarts and reboots until delivered."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._names = sorted(name for name in disk.sizes() if name.startswith(EVIDENCE_PREFIX))
        last = self._names[-1].removeprefix(EVIDENCE_PREFIX) if self._names else "0"
        self._next = int(last) + 1 if last.isdecimal() else 1

    def add(self, evidence: Evidence) -> None:
        """Store a bundle; drop the oldest if there are too many."""
        name = f"{EVIDENCE_PREFIX}{self._next:010d}"
        self._next += 1
        self._disk.replace(name, msgspec.json.encode(evidence), sync=True)
        self._names.append(name)
        while len(self._names) > EVIDENCE_MAX:
            self._disk.remove(self._names.pop(0))

    def oldest(self) -> tuple[str, Evidence] | None:
        """Return the name and content of the bundle to send next."""
        while self._names:
            name = self._names[0]
            try:
                return name, msgspec.json.decode(self._disk.read(name) or b"", type=Evidence)
            except msgspec.DecodeError:
                self.drop(name)
        return None

    def drop(self, name: str) -> None:
        """Delete a bundle."""
        self._names = [stored for stored in self._names if stored != name]
        self._disk.remove(name)
