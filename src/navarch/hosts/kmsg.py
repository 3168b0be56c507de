"""XIDs from the kernel: its log, and the driver's tracepoint."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from navarch.health.xid.line import parse_record
from navarch.ports.clock import Clock
from navarch.ports.host import HostError, KernelRecord

DEVICE = Path("/dev/kmsg")
RECORDS_AT_ONCE = 2000
"""A limit per read, so that a flood of messages does not block the reader."""
_RECORD_BYTES = 16384
"""More than the longest record: the kernel does not return partial records."""


class Kmsg:
    """Reads `/dev/kmsg`, which holds the records of the current boot.

    The first read returns all records that the kernel still holds. A bookmark of the last sequence
    number, valid within one boot, lets a restarted agent skip those it has seen.
    """

    name = "kmsg"

    def __init__(self, clock: Clock, device: Path = DEVICE, *, file: int | None = None) -> None:
        self._clock = clock
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._file = os.open(device, flags) if file is None else file
        except OSError as error:
            raise HostError(f"{device}: {error.strerror}") from error
        self._live = False
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many times the kernel overwrote unread records."""
        return self._lost

    def read(self) -> Sequence[KernelRecord]:
        """Return the new records."""
        now, uptime_s = self._clock.now(), self._clock.monotonic()
        records = []
        for raw in self._raw_records():
            record = parse_record(raw, now=now, uptime_s=None if self._live else uptime_s)
            if record is not None:
                records.append(record)
        # After the backlog, records are new, so they get the current time: the log's own clock
        # drifts by seconds a week.
        self._live = self._live or len(records) < RECORDS_AT_ONCE
        return records

    def fileno(self) -> int:
        """Return the device's file descriptor."""
        return self._file

    def close(self) -> None:
        """Close the device."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _raw_records(self) -> Iterator[bytes]:
        for _ in range(RECORDS_AT_ONCE):
            try:
                raw = os.read(self._file, _RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:
                    self._lost += 1  # The next read continues with the oldest record left.
                    continue
                if error.errno == errno.EINVAL:
                    continue  # Longer than any known record: skip it.
                raise HostError(f"the kernel's log: {error.strerror}") from error
            if not raw:
                return
            yield raw


def open_kmsg(clock: Clock) -> Kmsg | None:
    """Return the kernel log, or None without permission, as in most containers."""
    with contextlib.suppress(HostError):
        return Kmsg(clock)
    return None


@dataclass(slots=True)
class MemoryBookmark:
    """A bookmark in memory, for tests and simulated machines."""

    boot_id: str = ""
    sequence: int = -1

    def load(self, boot_id: str) -> int:
        """Return the position saved for this boot; -1 if there is none."""
        return self.sequence if boot_id == self.boot_id else -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Store the position."""
        self.boot_id, self.sequence = boot_id, sequence


class FileBookmark:
    """A bookmark in a small file, replaced on each save.

    It is not synced: a power cut ends the boot, and with it the sequence numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, boot_id: str) -> int:
        """Return the position saved for this boot; -1 if there is none or the file is invalid."""
        try:
            kept = json.loads(self._path.read_bytes())
            return int(kept["sequence"]) if kept["boot_id"] == boot_id else -1
        except (OSError, ValueError, KeyError, TypeError):
            return -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Write the file atomically."""
        new = self._path.with_name(self._path.name + ".part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps({"boot_id": boot_id, "sequence": sequence}))
            os.replace(new, self._path)
        except OSError as error:
            raise HostError(f"{self._path}: {error.strerror}") from error


TRACEFS = Path("/sys/kernel/tracing")
INSTANCE = "navarch"
_EVENT = Path("events/nvidia/nvidia_dev_xid/enable")
_BYTES_AT_ONCE = 1 << 18


class Tracepoint:
    """Reads the trace of one event."""

    name = "tracepoint"
    lost = 0

    def __init__(self, clock: Clock, pipe: int, *, instance: Path | None = None) -> None:
        self._clock = clock
        self._pipe = pipe
        self._instance = instance
        self._unfinished = b""

    def read(self) -> Sequence[KernelRecord]:
        """Return the new lines."""
        try:
            chunk = os.read(self._pipe, _BYTES_AT_ONCE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise HostError(f"the tracepoint: {error.strerror}") from error
        *lines, self._unfinished = (self._unfinished + chunk).split(b"\n")
        now = self._clock.now()
        texts = [line.decode("utf-8", "replace") for line in lines]
        return [KernelRecord(sequence=0, at=now, text=text, raw=text) for text in texts if text]

    def fileno(self) -> int:
        """Return the pipe's file descriptor."""
        return self._pipe

    def close(self) -> None:
        """Stop tracing."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._instance is not None:
            with contextlib.suppress(OSError):
                self._instance.rmdir()


def open_tracepoint(clock: Clock, tracefs: Path = TRACEFS) -> Tracepoint | None:
    """Start tracing; return None if the driver or the kernel does not support it."""
    if not (tracefs / _EVENT).exists():
        return None
    instance = tracefs / "instances" / INSTANCE
    try:
        instance.mkdir(exist_ok=True)
        (instance / _EVENT).write_text("1")
        pipe = os.open(instance / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    return Tracepoint(clock, pipe, instance=instance)
