"""The kernel log, record by record, from `/dev/kmsg`, and the position reached in it."""

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
