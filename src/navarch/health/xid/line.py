"""Parse kernel log lines in which the driver reports an XID or an SXid.

The formats are those of NVRM since before 2012, of the tracepoint `nvidia:nvidia_dev_xid` and of
NVSwitch drivers, with any prefix of dmesg, journald, syslog or `/dev/kmsg`, or inside a record of
journald, Docker or CRI. Lines written by user
space do not count, however similar: the driver's name must be where the kernel puts it, and the
priority, if there is one, must be the kernel's.
"""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from navarch.health.xid.catalogue import Kind
from navarch.health.xid.wrapper import WRAPPED, unwrap
from navarch.ports.host import KernelRecord

OFF_THE_BUS = 79


class XidLine(NamedTuple):
    """One error as the driver printed it. A tuple, since a log may hold millions."""

    kind: Kind
    code: int
    pci: str | None
    """The device as printed; None if the line was cut off before it."""
    pid: int | None = None
    name: str | None = None
    text: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None


ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
"""A PCI address as drivers print it."""
_XID = re.compile(rf"Xid \((?:PCI:)?({ADDRESS})(?: GPU-I:(\d+))?(?: GPU-CI:(\d+))?\): ")
_SXID = re.compile(r"Xid \((?:PCI:)?([0-9a-fA-F]+:[0-9a-fA-F:.]+)(?: [^()]*)?\): ")
_XID_DETAILS = re.compile(
    r"(\d{1,5})(?!\w),?\s*(?:pid=([^,]*)(?:,\s*|$))?(?:name=(.*?)(?:, |,?$))?(.*)"
)
_SXID_DETAILS = re.compile(r"(\d{5})(?!\w),?\s*(.*)")
_PREFIX = re.compile(
    r"\s*(?:<(?P<priority>\d{1,3})>(?:1(?= \d{4}-.* kernel - - ))?)?"
    r"(?:(?P<record>\d{1,4}),\d+,\d+,[^;]*;)?"
    r"\s*(?:(?P<facility>[a-z0-9]+)\s*:\s*[a-z]+\s*:\s*)?"
    r"(?:(?:[^\s\"'=]+(?<!:)\s+){0,9}kernel(?:(?:\[\d+\])?:| - - -)\s*"
    r"|(?:[A-Z][a-z]{2}\s+\d+\s+|\d{4}[-/]\d\d[-/]\d\d[T ])[\d:.,+Z-]+\s+)?"
    r"(?:\[(?=[^\]]*\d)[^\]\[=]{1,48}\]\s*)*"
    r"(?:<(?P<inner>\d{1,3})>)?"
)
_SECONDS = re.compile(r"\[ *\d+\.\d+\] ")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SWITCH = re.compile(r"nvidia-nvswitch\d+:? ?$")
_TRACEPOINT = re.compile(r"\s*|.*\S-\d+\s.*\snvidia_dev_xid: ")
_LOST = re.compile(rf"GPU (?:at )?(?:PCI:)?({ADDRESS})\b.*\bfallen off the bus")
_NAMED = re.compile(rf"NVRM: The NVIDIA GPU ({ADDRESS})")
_DRIVER = "NVRM: "
_QUOTES = "'\" "


class LineReader:
    """Reads lines in order: one driver message spans three lines."""

    def __init__(self) -> None:
        self._named: str | None = None

    def read(self, line: str) -> XidLine | None:
        """Return the error that `line` reports, if any."""
        if line[:1] in WRAPPED:
            inner = unwrap(line)
            if inner is None:
                return None
            line = inner
        if "\x1b" in line:
            line = _COLOURS.sub("", line)
        at = line.find("Xid (")
        if at > 0 and line[at - 1] == "S":
            return _read_sxid(line, at)
        if at >= 0:
            return _read_xid(line, at)
        if "NVRM: " in line:
            return self._read_lost_gpu(line)
        return None

    def _read_lost_gpu(self, line: str) -> XidLine | None:
        """Read the messages about a lost GPU that have no XID."""
        at = line.find(_DRIVER)
        named = _NAMED.match(line, at)
        if named is not None:
            self._named = named[1]
        if "fallen off the bus" not in line or not _from_kernel(line[:at]):
            return None
        words = line[at + len(_DRIVER) :].strip()
        lost = _LOST.match(words)
        if lost is not None:
            return XidLine(Kind.XID, OFF_THE_BUS, lost[1], text=words)
        if words.startswith("fallen off the bus"):
            pci, self._named = self._named, None
            return XidLine(Kind.XID, OFF_THE_BUS, pci, text=words)
        return None


def parse_line(line: str) -> XidLine | None:
    """Return the error that a single line reports, if any."""
    return LineReader().read(line)


def read_details(
    kind: Kind, words: str, at: int = 0
) -> tuple[int, int | None, str | None, str] | None:
    """Return code, pid, name and text behind the address; None if there is no code."""
    if kind is Kind.SXID:
        found = _SXID_DETAILS.match(words, at)
        return None if found is None else (int(found[1]), None, None, found[2].strip())
    found = _XID_DETAILS.match(words, at)
    if found is None:
        return None
    code, pid, name, text = found.groups()
    if pid is not None:
        pid = pid.strip(_QUOTES)
    if name is not None:
        name = name.strip(_QUOTES)
    return (
        int(code),
        int(pid) if pid and pid.isascii() and pid.isdecimal() else None,
        name if name and name != "<unknown>" else None,
        text.strip(),
    )


def _read_xid(line: str, at: int) -> XidLine | None:
    place = _XID.match(line, at)
    if place is None:
        return None
    if at != 6 or not line.startswith(_DRIVER):
        before = line[:at]
        if before.endswith(_DRIVER):
            if not _from_kernel(before[: -len(_DRIVER)]):
                return None
        elif not _TRACEPOINT.fullmatch(before):
            return None
    details = read_details(Kind.XID, line, place.end())
    if details is None:
        return None
    pci, gpu_instance, compute_instance = place.groups()
    return XidLine(
        Kind.XID,
        details[0],
        pci,
        *details[1:],
        int(gpu_instance) if gpu_instance else None,
        int(compute_instance) if compute_instance else None,
    )


def _read_sxid(line: str, at: int) -> XidLine | None:
    place = _SXID.match(line, at)
    details = None if place is None else read_details(Kind.SXID, line, place.end())
    if place is None or details is None:
        return None
    switch = _SWITCH.search(line, 0, at - 1)
    if switch is None or (switch.start() and not _from_kernel(line[: switch.start()])):
        return None
    return XidLine(Kind.SXID, details[0], place[1], *details[1:])


def without_prefix(line: str) -> str | None:
    """Return the message of the kernel in `line`; None if user space has written it."""
    inner = unwrap(line)
    if inner is None:
        return None
    line = _COLOURS.sub("", inner)
    found = _PREFIX.match(line)
    if found is None or not _from_kernel(line[: found.end()]):
        return None
    return line[found.end() :].rstrip()


def _from_kernel(prefix: str) -> bool:
    """Return whether `prefix` is one that the kernel or a log reader puts before a line."""
    if not prefix or _SECONDS.fullmatch(prefix):
        return True
    found = _PREFIX.fullmatch(prefix)
    if found is None:
        return False
    priority, record, facility, inner = found.group("priority", "record", "facility", "inner")
    # The lower three bits are the level, the others the facility; the kernel's is zero.
    return all(int(number) < 8 for number in (priority, record, inner) if number) and (
        facility in (None, "kern")
    )


def parse_record(raw: bytes, *, now: datetime, uptime_s: float | None) -> KernelRecord | None:
    """Return a record of `/dev/kmsg` (`priority,sequence,usec,flags;text`); None if invalid.

    With `uptime_s` the time is computed from the record's own; without, it is `now`.
    """
    header, semicolon, rest = raw.decode("utf-8", "replace").partition(";")
    fields = header.split(",")
    if not semicolon or len(fields) < 3 or not all(f.isdecimal() for f in fields[:3]):
        return None
    priority, sequence, written_us = (int(field) for field in fields[:3])
    age_s = 0.0 if uptime_s is None else max(0.0, uptime_s - written_us / 1e6)
    text = rest.partition("\n")[0]  # The lines after it describe the device for udev.
    return KernelRecord(
        sequence=sequence,
        at=now - timedelta(seconds=min(age_s, 10 * 365 * 86400.0)),
        text=text,
        from_kernel=priority < 8,
        raw=f"{header};{text}",
    )
